//! What the archive must keep, whatever happens to it.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use feedmill_formats::warc::{self, Digest, RecordType};

use super::segment::{MAX_REMEMBERED, Segment};
use super::*;
use crate::model::{Headers, Truncation, Ts, new_uuid};

pub(super) fn settings(dir: &Path) -> Settings {
    Settings {
        dir: dir.to_owned(),
        segment_size: 64 << 20,
        segment_age: Duration::from_hours(6),
        gzip_level: 6,
        agent: "Feedmill/test".to_owned(),
        max_body: 0,
    }
}

pub(super) fn clock() -> Clock {
    Clock::manual(Ts::from_ms(1_800_000_000_000))
}

fn exchange(n: usize) -> Exchange {
    let began = Ts::from_ms(1_800_000_000_000);
    Exchange {
        id: new_uuid(began),
        url: format!("https://example.com/{n}?q=1"),
        request: Headers(vec![("host".into(), "example.com".into())]),
        status: 200,
        reason: "OK".into(),
        headers: Headers(vec![("content-type".into(), "text/plain".into())]),
        body: format!("the body of page {n}\r\nWARC/1.1\r\n\r\n").into(),
        truncated: (n % 2 == 1).then_some(Truncation::Disconnect),
        remote: Some([192, 0, 2, 1].into()),
        began,
        ended: began,
        elapsed: Duration::from_millis(5),
    }
}

/// A page with a long body, or one of a few bodies again.
pub(super) fn page(n: usize, body: usize) -> Exchange {
    let body = format!("body {body}: {}", "lorem ipsum ".repeat(80)).into();
    Exchange { body, truncated: None, ..exchange(n) }
}

pub(super) fn stored(dir: &Path, raw: &RawRef) -> Result<Stored, ArchiveError> {
    static RUNTIME: LazyLock<tokio::runtime::Runtime> =
        LazyLock::new(|| tokio::runtime::Builder::new_multi_thread().build().unwrap());
    RUNTIME.block_on(Reader::new(dir.to_owned(), None).stored(raw))
}

fn kinds(dir: &Path) -> Vec<RecordType> {
    let members =
        files(dir).into_iter().flat_map(|path| warc::scan(File::open(path).unwrap(), u64::MAX));
    members.map(|member| member.unwrap().fields.kind().unwrap()).collect()
}

pub(super) fn files(dir: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn a_record_reads_back_as_it_was_while_open_and_after() {
    let dir = tempfile::tempdir().unwrap();
    let archive = Archive::open(settings(dir.path()), clock()).unwrap();
    let kept: Vec<_> = (0..5).map(|n| archive.append(&exchange(n)).unwrap()).collect();
    let check = || {
        for (n, raw) in kept.iter().enumerate() {
            let stored = stored(dir.path(), raw).unwrap();
            assert_eq!(stored.head.status(), Some(200));
            assert_eq!(stored.body, exchange(n).body);
            assert_eq!(stored.fields.target_uri(), Some(exchange(n).url.as_str()));
            let (asked, _) = stored.request.as_ref().unwrap().http().unwrap();
            assert_eq!(asked.start, format!("GET /{n}?q=1 HTTP/1.1"));
        }
    };
    check();
    archive.close().unwrap();
    assert!(files(dir.path()).iter().all(|path| path.extension().unwrap() == "gz"));
    check();
}

#[test]
fn a_payload_that_stands_in_the_segment_is_not_written_again() {
    use RecordType::{Request, Response, Revisit, Warcinfo};
    let dir = tempfile::tempdir().unwrap();
    let archive = Archive::open(settings(dir.path()), clock()).unwrap();
    let pages = [page(1, 7), page(2, 7), page(1, 7), page(3, 8)];
    let kept: Vec<_> = pages.iter().map(|page| archive.append(page).unwrap()).collect();
    for (page, raw) in pages.iter().zip(&kept) {
        let stored = stored(dir.path(), raw).unwrap();
        assert_eq!(stored.body, page.body);
        assert_eq!(stored.fields.target_uri(), Some(page.url.as_str()));
        // What is copied or handed out needs no other record.
        let alone = warc::read_member(&stored.members.0, u64::MAX).unwrap();
        assert!(alone.intact() && alone.fields.kind() == Some(Response));
        assert_eq!(alone.http().unwrap().1, page.body);
        assert_eq!(alone.fields.id(), stored.fields.id());
    }
    let revisit = stored(dir.path(), &kept[1]).unwrap().fields;
    assert_eq!(revisit.get("WARC-Refers-To-Target-URI"), Some(pages[0].url.as_str()));
    assert_eq!(revisit.get("WARC-Refers-To-Date"), Some("2027-01-15T08:00:00Z"));
    assert!(revisit.get("WARC-Profile").unwrap().ends_with("identical-payload-digest"));
    assert_eq!(
        kinds(dir.path()),
        [Warcinfo, Response, Request, Revisit, Request, Revisit, Request, Response, Request]
    );
    // The next segment stands alone.
    archive.close().unwrap();
    let alone = archive.append(&pages[0]).unwrap();
    archive.close().unwrap();
    fs::remove_file(dir.path().join(&kept[0].segment)).unwrap();
    assert_eq!(stored(dir.path(), &alone).unwrap().body, pages[0].body);
    assert_eq!(stored(dir.path(), &kept[1]).unwrap_err().code(), "archive_missing");
}

#[test]
fn only_the_latest_payloads_are_remembered() {
    let dir = tempfile::tempdir().unwrap();
    let mut segment = Segment::start(dir.path(), clock().now(), "Feedmill/test", 6).unwrap();
    let digest = |n: usize| Digest::of(&[n.to_string().as_bytes()]);
    let page = page(1, 1);
    let raw = |n: usize| RawRef { segment: String::new(), offset: n as u64, length: 1 };
    for n in 0..=MAX_REMEMBERED {
        segment.know(digest(n), &page, &raw(n));
    }
    assert!(segment.known(digest(0)).is_none(), "the oldest");
    assert!(segment.known(digest(1)).is_some());
    segment.forget(1);
    segment.know(digest(0), &page, &raw(0));
    assert!(segment.known(digest(1)).is_none(), "what was forgotten");
    assert!(segment.known(digest(0)).is_some() && segment.known(digest(2)).is_some());
}

#[test]
fn only_whole_and_good_answers_are_shared() {
    let dir = tempfile::tempdir().unwrap();
    let archive = Archive::open(settings(dir.path()), clock()).unwrap();
    let cut = |n| Exchange { truncated: Some(Truncation::Length), ..page(n, 1) };
    let gone = |n| Exchange { status: 404, ..page(n, 1) };
    for page in [cut(1), cut(2), gone(3), gone(4), page(5, 1), exchange(6), exchange(6)] {
        archive.append(&page).unwrap();
    }
    assert!(!kinds(dir.path()).contains(&RecordType::Revisit));
}

#[test]
fn a_segment_cut_at_any_byte_keeps_every_whole_record() {
    let dir = tempfile::tempdir().unwrap();
    let archive = Archive::open(settings(dir.path()), clock()).unwrap();
    let pages = [exchange(0), exchange(1), page(2, 1), page(3, 1)];
    let kept: Vec<_> = pages.iter().map(|page| archive.append(page).unwrap()).collect();
    archive.sync().unwrap();
    let open = files(dir.path()).remove(0);
    let whole = fs::read(&open).unwrap();
    let name = open.file_name().unwrap().to_owned();
    drop(archive);
    let crashed = tempfile::tempdir().unwrap();
    for cut in 0..=whole.len() {
        fs::write(crashed.path().join(&name), &whole[..cut]).unwrap();
        Archive::open(settings(crashed.path()), clock()).unwrap();
        for (n, raw) in kept.iter().enumerate() {
            let survived = raw.offset + raw.length <= cut as u64;
            let read = stored(crashed.path(), raw);
            assert_eq!(read.is_ok(), survived, "record {n}, cut at {cut}");
            assert!(read.is_ok_and(|read| read.body == pages[n].body) || !survived);
        }
        for path in files(crashed.path()) {
            let mut members = warc::scan(File::open(&path).unwrap(), u64::MAX);
            assert!(members.all(|member| member.is_ok()), "nothing torn is left");
            fs::remove_file(path).unwrap();
        }
    }
}

#[test]
fn what_was_not_on_disk_when_a_sync_failed_counts_as_lost() {
    let dir = tempfile::tempdir().unwrap();
    let archive = Archive::open(settings(dir.path()), clock()).unwrap();
    let safe = archive.append(&exchange(1)).unwrap();
    archive.sync().unwrap();
    let lost = archive.append(&exchange(2)).unwrap();
    // A file that cannot be synced.
    let broken = OpenOptions::new().append(true).open("/dev/null").unwrap();
    archive.segment().as_mut().unwrap().file = broken;
    assert_eq!(archive.sync().unwrap_err().code(), "archive_io");
    assert!(archive.has_lost(&lost) && !archive.has_lost(&safe));
    let next = archive.append(&exchange(3)).unwrap();
    assert_ne!(next.segment, lost.segment, "nothing is written behind what may be missing");
    archive.sync().unwrap();
    assert!(!archive.has_lost(&next));
}

#[test]
fn a_torn_record_is_cut_off_before_the_next_one() {
    let dir = tempfile::tempdir().unwrap();
    let archive = Archive::open(settings(dir.path()), clock()).unwrap();
    let first = archive.append(&exchange(1)).unwrap();
    let path = files(dir.path()).remove(0);
    // A disk that is full in the middle of a record.
    OpenOptions::new().append(true).open(&path).unwrap().write_all(b"half a rec").unwrap();
    archive.segment().as_mut().unwrap().torn = true;
    let second = archive.append(&exchange(2)).unwrap();
    assert_eq!(first.segment, second.segment);
    stored(dir.path(), &second).unwrap();
    archive.close().unwrap();
    let closed = files(dir.path()).remove(0);
    assert!(warc::scan(File::open(&closed).unwrap(), u64::MAX).all(|member| member.is_ok()));
}

#[test]
fn damage_in_the_middle_costs_one_record_and_only_the_torn_tail_is_cut() {
    let dir = tempfile::tempdir().unwrap();
    let archive = Archive::open(settings(dir.path()), clock()).unwrap();
    let kept: Vec<_> = (0..3).map(|n| archive.append(&exchange(n)).unwrap()).collect();
    let last = archive.append(&exchange(3)).unwrap();
    drop(archive);
    let open = files(dir.path()).remove(0);
    let mut bytes = fs::read(&open).unwrap();
    bytes[usize::try_from(kept[1].offset).unwrap() + 40] ^= 1;
    bytes.truncate(usize::try_from(last.offset).unwrap() + 40);
    fs::write(&open, &bytes).unwrap();
    Archive::open(settings(dir.path()), clock()).unwrap();
    let closed = files(dir.path()).remove(0);
    assert_eq!(closed.file_name().unwrap().to_str(), Some(last.segment.as_str()));
    assert_eq!(fs::read(closed).unwrap(), bytes[..usize::try_from(last.offset).unwrap()]);
    for (n, raw) in kept.iter().enumerate() {
        assert_eq!(stored(dir.path(), raw).is_ok(), n != 1, "record {n}");
    }
}

#[test]
fn segments_end_by_size_and_by_age() {
    let dir = tempfile::tempdir().unwrap();
    let clock = clock();
    let small = Settings { segment_size: 1, ..settings(dir.path()) };
    let archive = Archive::open(small, clock.clone()).unwrap();
    let (a, b) = (archive.append(&exchange(1)).unwrap(), archive.append(&exchange(2)).unwrap());
    assert_ne!(a.segment, b.segment);
    let archive = Archive::open(settings(dir.path()), clock.clone()).unwrap();
    let a = archive.append(&exchange(1)).unwrap();
    clock.advance(Duration::from_hours(7));
    let b = archive.append(&exchange(2)).unwrap();
    assert_ne!(a.segment, b.segment);
    // Also when nothing comes any more.
    let closed = || Archive::closed(dir.path()).unwrap().iter().any(|(name, _)| *name == b.segment);
    archive.rotate().unwrap();
    assert!(!closed());
    clock.advance(Duration::from_hours(7));
    archive.rotate().unwrap();
    assert!(closed());
}

#[test]
fn what_came_compressed_is_not_compressed_again() {
    let dir = tempfile::tempdir().unwrap();
    let hardest = Settings { gzip_level: 9, ..settings(dir.path()) };
    let archive = Archive::open(hardest, clock()).unwrap();
    let length = |n: usize, coding: &str| {
        let headers = Headers(vec![("Content-Encoding".into(), coding.into())]);
        // It is not: so one can see that it stays as it is.
        let raw = archive.append(&Exchange { headers, ..page(n, n) }).unwrap();
        assert_eq!(stored(dir.path(), &raw).unwrap().body, page(n, n).body);
        raw.length
    };
    let body = page(1, 1).body.len() as u64;
    assert!(length(1, "gzip") > body && length(2, "identity") < body);
}

#[test]
fn only_we_may_read_what_is_kept() {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    let root = tempfile::tempdir().unwrap();
    let (dir, beside) = (root.path().join("archive"), root.path().join("beside"));
    let archive = Archive::open(settings(&dir), clock()).unwrap();
    let raw = archive.append(&exchange(1)).unwrap();
    carry(&dir, &beside, &[(raw.segment, raw.offset + raw.length)]).unwrap();
    archive.close().unwrap();
    let kept = [files(&dir).remove(0), files(&beside).remove(0)];
    assert_eq!([&dir, &beside].map(|dir| mode(dir)), [0o700; 2]);
    assert_eq!(kept.each_ref().map(|file| mode(file)), [0o600; 2]);
    // As an earlier version left it.
    fs::set_permissions(&kept[0], fs::Permissions::from_mode(0o644)).unwrap();
    Archive::open(settings(&dir), clock()).unwrap();
    assert_eq!(mode(&kept[0]), 0o600);
}

#[test]
fn a_copy_is_what_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let archive = Archive::open(settings(dir.path()), clock()).unwrap();
    archive.append(&page(1, 1)).unwrap();
    let revisit = archive.append(&page(2, 1)).unwrap();
    archive.close().unwrap();
    let before = stored(dir.path(), &revisit).unwrap();
    let (record, request) = before.members.clone();
    let copy = archive.copy(record, &request).unwrap();
    assert!(Archive::remove(dir.path(), &revisit.segment).unwrap());
    assert!(!Archive::remove(dir.path(), &revisit.segment).unwrap());
    let after = stored(dir.path(), &copy).unwrap();
    assert_eq!((after.body, after.request), (before.body, before.request));
    assert_eq!(after.fields.id(), before.fields.id());
}

#[test]
fn what_is_taken_out_leaves_all_others_where_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let archive = Archive::open(settings(dir.path()), clock()).unwrap();
    let pages = [page(1, 7), page(2, 8), page(3, 9)];
    let kept: Vec<_> = pages.iter().map(|page| archive.append(page).unwrap()).collect();
    let check = |gone: &RawRef| {
        for (page, raw) in pages.iter().zip(&kept) {
            let read = stored(dir.path(), raw);
            if raw == gone {
                assert!(read.is_err());
            } else {
                assert_eq!(read.unwrap().body, page.body);
            }
        }
        let bytes: Vec<u8> =
            files(dir.path()).iter().flat_map(|path| fs::read(path).unwrap()).collect();
        assert!(
            warc::pieces(std::io::Cursor::new(bytes), u64::MAX)
                .all(|piece| matches!(piece, Ok(warc::Piece::Record(_))))
        );
        // Neither what was asked for nor what was served is there.
        let all = kinds(dir.path());
        let count = |kind| all.iter().filter(|one| **one == kind).count();
        assert_eq!(count(RecordType::Metadata), 2);
    };
    assert!(archive.erase(&kept[1]).unwrap(), "while it is being written");
    check(&kept[1]);
    // The same payload is written again, and refers to nothing that is gone.
    assert!(archive.forget(&kept[1]));
    let again = archive.append(&page(4, 8)).unwrap();
    assert_eq!(stored(dir.path(), &again).unwrap().body, page(4, 8).body);
    archive.close().unwrap();
    assert!(archive.erase(&kept[1]).unwrap(), "and once more");
    check(&kept[1]);
    // Half of a record that was going is gone over again.
    let path = &files(dir.path())[0];
    let torn = OpenOptions::new().write(true).open(path).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&torn, b"torn", kept[1].offset + 20).unwrap();
    assert!(erase(dir.path(), &kept[1], Ts::from_ms(0)).unwrap());
    check(&kept[1]);
    let elsewhere = RawRef { segment: "other.warc.gz".into(), ..kept[1].clone() };
    assert!(!erase(dir.path(), &elsewhere, Ts::from_ms(0)).unwrap());
}

#[test]
fn a_record_goes_only_when_nothing_on_its_way_relies_on_it() {
    let dir = tempfile::tempdir().unwrap();
    let archive = Archive::open(settings(dir.path()), clock()).unwrap();
    let first = archive.append(&page(1, 7)).unwrap();
    let (early, late) = (archive.writer(), archive.writer());
    let revisit = archive.append(&page(2, 7)).unwrap();
    let relies_on = stored(dir.path(), &revisit).unwrap().fields.payload_place();
    assert_eq!(relies_on, Some((first.offset, first.length)));
    assert!(!archive.forget(&first));
    drop(late);
    // Whoever begins now finds nothing to rely on, and is not waited for.
    let _after = archive.writer();
    let own = archive.append(&page(3, 7)).unwrap();
    assert!(!archive.forget(&first), "the early one is not done");
    drop(early);
    assert!(archive.forget(&first));
    assert!(archive.erase(&first).unwrap());
    assert_eq!(stored(dir.path(), &own).unwrap().body, page(3, 7).body);
}

/// A record that is small on disk and 60 MB when it is unpacked; without digests, so that it is quickly
/// made.
fn bomb() -> Vec<u8> {
    let length = 60 << 20;
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    write!(packed, "WARC/1.1\r\nWARC-Type: response\r\nWARC-Record-ID: <urn:uuid:x>\r\n").unwrap();
    write!(packed, "Content-Length: {length}\r\n\r\n").unwrap();
    packed.write_all(&vec![b' '; length]).unwrap();
    packed.write_all(b"\r\n\r\n").unwrap();
    packed.finish().unwrap()
}

#[test]
fn a_record_over_the_limit_is_refused_with_its_place_and_the_rest_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let archive = Archive::open(settings(dir.path()), clock()).unwrap();
    let (first, large) = (archive.append(&page(1, 1)).unwrap(), archive.copy(bomb(), &[]).unwrap());
    let last = archive.append(&page(3, 3)).unwrap();
    assert!(large.length < 200_000);
    let refused = |raw: &RawRef| stored(dir.path(), raw).unwrap_err().to_string();
    let said = refused(&large);
    assert!(said.contains(&format!("{} at {}", large.segment, large.offset)), "{said}");
    assert!(said.contains("bytes is over the limit"), "{said}");
    // A place that nothing of that length can be at is not even read.
    let endless = RawRef { length: u64::MAX / 2, ..first.clone() };
    assert!(refused(&endless).contains("over the limit"));
    for raw in [&first, &last] {
        stored(dir.path(), raw).unwrap();
    }
    // What a crash leaves is closed with it, and nothing of it is cut off.
    let length = fs::metadata(&files(dir.path())[0]).unwrap().len();
    drop(archive);
    Archive::open(settings(dir.path()), clock()).unwrap();
    assert_eq!(Archive::closed(dir.path()).unwrap(), [(last.segment.clone(), length)]);
    assert!(erase(dir.path(), &large, Ts::from_ms(0)).unwrap(), "and it can be taken out");
    stored(dir.path(), &last).unwrap();
}

#[test]
fn what_is_no_regular_file_is_left_alone() {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    fs::create_dir(path("d.warc.gz.open")).unwrap();
    fs::write(path("outside"), "text").unwrap();
    std::os::unix::fs::symlink(path("outside"), path("l.warc.gz.open")).unwrap();
    for name in ["f.warc.gz.open", "f.warc.gz", "g.warc.gz"] {
        mknodat(CWD, path(name), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    }
    // What is somebody else's stays, whatever it is called.
    let others = ["notes.open", "n.warc.gz.open", "other.gz"];
    others.iter().for_each(|name| fs::write(path(name), "notes").unwrap());
    let archive = Archive::open(settings(dir.path()), clock()).unwrap();
    assert_eq!(Archive::closed(dir.path()).unwrap(), []);
    assert_eq!(fs::read_to_string(path("outside")).unwrap(), "text");
    others.iter().for_each(|name| assert_eq!(fs::read(path(name)).unwrap(), b"notes", "{name}"));
    for segment in ["d", "l", "f", "g"] {
        let raw = RawRef { segment: format!("{segment}.warc.gz"), offset: 0, length: 10 };
        assert_eq!(stored(dir.path(), &raw).unwrap_err().code(), "archive_io", "{segment}");
        assert_eq!(erase(dir.path(), &raw, Ts::from_ms(0)).unwrap_err().code(), "archive_io");
        let wanted = [(raw.segment, 10)];
        let to = path("copies");
        assert_eq!(carry(dir.path(), &to, &wanted).unwrap_err().code(), "archive_io", "{segment}");
    }
    let raw = archive.append(&page(1, 1)).unwrap();
    stored(dir.path(), &raw).unwrap();
    archive.close().unwrap();
    let left = files(dir.path()).len();
    assert_eq!(left, 11, "all of them, the copies' directory, and one segment");
}

#[test]
fn what_was_not_committed_is_written_again_after_its_segment_was_lost() {
    let damages: [fn(&Path); 4] = [
        |open| fs::remove_file(open).unwrap(),
        |open| OpenOptions::new().write(true).open(open).unwrap().set_len(7).unwrap(),
        |open| {
            fs::remove_file(open).unwrap();
            fs::write(open, "another").unwrap();
        },
        |open| fs::remove_dir_all(open.parent().unwrap()).unwrap(),
    ];
    for (n, damage) in damages.into_iter().enumerate() {
        let dir = tempfile::tempdir().unwrap();
        let below = dir.path().join("archive");
        let archive = Arc::new(Archive::open(settings(&below), clock()).unwrap());
        let (committed, uncommitted) = (page(1, 1), page(2, 1));
        let old = archive.append(&committed).unwrap();
        let raw = archive.append(&uncommitted).unwrap();
        let retained = archive.retain(&uncommitted, None);
        archive.sync().unwrap();
        damage(&files(&below)[0]);
        assert!(!archive.has_lost(&raw));
        archive.sync().unwrap();
        assert!(archive.has_lost(&raw) && archive.has_lost(&old), "{n}");
        let again = archive.append_again(uncommitted.id).unwrap().unwrap();
        archive.sync().unwrap();
        assert!(!archive.has_lost(&again) && again.segment != raw.segment);
        // It relies on nothing that is gone.
        assert_eq!(stored(&below, &again).unwrap().body, uncommitted.body);
        let losses = archive.take_losses();
        assert_eq!(losses.iter().map(|loss| &loss.segment).collect::<Vec<_>>(), [&raw.segment]);
        drop(retained);
        assert_eq!(archive.append_again(uncommitted.id).unwrap(), None, "it was committed");
        archive.close().unwrap();
    }
}

#[test]
fn a_segment_that_goes_is_missed_by_whoever_looks_next() {
    let looks: [fn(&Archive); 4] = [
        |archive| drop(archive.append(&page(9, 9)).unwrap()),
        |archive| drop(archive.copy(vec![1], &[2]).unwrap()),
        |archive| archive.rotate().unwrap(),
        |archive| archive.close().unwrap(),
    ];
    for look in looks {
        let dir = tempfile::tempdir().unwrap();
        let archive = Archive::open(settings(dir.path()), clock()).unwrap();
        let raw = archive.append(&page(1, 1)).unwrap();
        archive.sync().unwrap();
        fs::remove_file(&files(dir.path())[0]).unwrap();
        look(&archive);
        assert!(archive.has_lost(&raw));
        let next = archive.append(&page(1, 1)).unwrap();
        assert_eq!(stored(dir.path(), &next).unwrap().body, page(1, 1).body);
    }
}
