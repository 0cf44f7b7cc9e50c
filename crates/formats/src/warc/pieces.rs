//! A segment that a crash or a bad disk may have damaged: every whole record of it.
//!
//! Damage costs the records that it hits and no other: behind it, reading goes on at the next whole
//! record. Nothing is taken for one that cannot be unpacked up to its checksum.

use std::io::{self, BufRead, Read, Seek, SeekFrom};

use super::read::{Counted, Member, Scan, WarcError, scan};

/// How a gzip member without a file name begins.
const MEMBER_HEAD: [u8; 4] = [0x1f, 0x8b, 8, 0];

/// A part of a segment that may be damaged.
#[derive(Debug)]
pub enum Piece {
    /// A whole record.
    Record(Member),
    /// Bytes that are none, up to the next whole record or to the end.
    Gap {
        /// The first of them.
        offset: u64,
        /// Why they are no record.
        error: WarcError,
    },
}

/// All whole records of a segment in order whose blocks have at most `limit` bytes.
///
/// Also those behind damage and behind larger records. What follows the last one is the trace of a
/// crash, or a record over the limit: its error tells which.
/// Only a segment that cannot be read gives an error, and nothing comes after it.
pub fn pieces<R: Read + Seek>(segment: R, limit: u64) -> Pieces<R> {
    Pieces { members: scan(segment, limit), end: 0, found: None }
}

/// The iterator of [`pieces`].
#[derive(Debug)]
pub struct Pieces<R> {
    members: Scan<R>,
    /// The byte after the last whole record.
    end: u64,
    /// The record that ended a gap.
    found: Option<Member>,
}

impl<R: Read + Seek> Pieces<R> {
    /// Looks for the next whole record behind bytes that are none. Its head may also stand by chance
    /// inside of a damaged member: what counts is whether a whole record follows it.
    fn gap(&mut self, error: WarcError) -> io::Result<Piece> {
        let offset = self.end;
        let mut from = offset + 1;
        while let Some(start) = self.members.segment.find_head(from)? {
            self.members.segment.go_to(start)?;
            match self.members.member() {
                Err(WarcError::Gzip(error)) if self.members.segment.broken => return Err(error),
                // It has a whole header and a whole member: only its size is wrong.
                Err(WarcError::TooLarge(_)) => from = self.members.segment.at,
                Err(_) => from = start + 1,
                Ok(found) => {
                    self.found = found;
                    self.members.done = false;
                    break;
                }
            }
        }
        Ok(Piece::Gap { offset, error })
    }
}

impl<R: Read + Seek> Iterator for Pieces<R> {
    type Item = io::Result<Piece>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.found.take().map(Ok).or_else(|| self.members.next())? {
            Ok(member) => {
                self.end = member.offset + member.length;
                Some(Ok(Piece::Record(member)))
            }
            Err(WarcError::Gzip(error)) if self.members.segment.broken => Some(Err(error)),
            // The reader stands behind it already.
            Err(error @ WarcError::TooLarge(_)) => {
                let offset = std::mem::replace(&mut self.end, self.members.segment.at);
                Some(Ok(Piece::Gap { offset, error }))
            }
            Err(error) => Some(self.gap(error)),
        }
    }
}

impl<R: Read + Seek> Counted<R> {
    fn go_to(&mut self, at: u64) -> io::Result<()> {
        self.at = self.inner.seek(SeekFrom::Start(at))?;
        Ok(())
    }

    /// The first place at or behind `from` where a gzip member of ours may begin.
    fn find_head(&mut self, from: u64) -> io::Result<Option<u64>> {
        self.go_to(from)?;
        let (mut at, mut seen) = (from, 0);
        loop {
            let chunk = self.fill_buf()?;
            if chunk.is_empty() {
                return Ok(None);
            }
            for byte in chunk {
                at += 1;
                seen = match MEMBER_HEAD.get(seen) {
                    Some(next) if next == byte => seen + 1,
                    _ => usize::from(MEMBER_HEAD.first() == Some(byte)),
                };
                if seen == MEMBER_HEAD.len() {
                    return Ok(Some(at - MEMBER_HEAD.len() as u64));
                }
            }
            let taken = chunk.len();
            self.consume(taken);
        }
    }
}
