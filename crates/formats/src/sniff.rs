//! What bytes are by their first few, whatever their label says.
//!
//! Only forms that no page or feed can begin with are told; everything else is left to parsers.

/// The form of a file that is no text, by its first bytes.
#[must_use]
pub fn binary(bytes: &[u8]) -> Option<&'static str> {
    const STARTS: [(&[u8], &str); 20] = [
        (b"%PDF-", "PDF"),
        (b"\x89PNG\r\n\x1a\n", "PNG"),
        (b"\xff\xd8\xff", "JPEG"),
        (b"GIF87a", "GIF"),
        (b"GIF89a", "GIF"),
        (b"PK\x03\x04", "ZIP"),
        (b"PK\x05\x06", "ZIP"),
        (b"\x1f\x8b", "gzip"),
        (b"BZh", "bzip2"),
        (b"\xfd7zXZ\0", "xz"),
        (b"\x28\xb5\x2f\xfd", "zstd"),
        (b"7z\xbc\xaf\x27\x1c", "7z"),
        (b"Rar!\x1a\x07", "RAR"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "Office"),
        (b"ID3", "MP3"),
        (b"OggS", "Ogg"),
        (b"\x1a\x45\xdf\xa3", "Matroska"),
        (b"wOF2", "font"),
        (b"\x7fELF", "program"),
        (b"II*\0", "TIFF"),
    ];
    // A mark of order or white space before a PDF is common; before the others it means text.
    let trimmed = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes).trim_ascii_start();
    if trimmed.starts_with(b"%PDF-") {
        return Some("PDF");
    }
    let by_start = STARTS.iter().find(|(start, _)| bytes.starts_with(start)).map(|(_, name)| *name);
    let tagged = |at: usize, tag: &[u8]| bytes.get(at..).is_some_and(|rest| rest.starts_with(tag));
    let riff = bytes.starts_with(b"RIFF");
    by_start
        .or_else(|| (riff && tagged(8, b"WEBP")).then_some("WebP"))
        .or_else(|| (riff && (tagged(8, b"WAVE") || tagged(8, b"AVI "))).then_some("RIFF"))
        // ISO media: mp4, m4a, mov, avif, heic.
        .or_else(|| tagged(4, b"ftyp").then_some("MP4"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn files_are_told_by_their_first_bytes() {
        for (bytes, name) in [
            (&b"%PDF-1.7\n%\xe2"[..], "PDF"),
            (b"\xef\xbb\xbf \n%PDF-1.4", "PDF"),
            (b"\x89PNG\r\n\x1a\n\0\0", "PNG"),
            (b"\xff\xd8\xff\xe0", "JPEG"),
            (b"RIFF\x10\0\0\0WEBPVP8 ", "WebP"),
            (b"\0\0\0\x18ftypmp42", "MP4"),
            (b"PK\x03\x04\x14", "ZIP"),
        ] {
            assert_eq!(binary(bytes), Some(name), "{name}");
        }
        for text in ["<!doctype html>", "RIFF is a word", "", "  <html>", "PK", "{\"a\":1}"] {
            assert_eq!(binary(text.as_bytes()), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_markup_is_taken_for_a_file(text in "\\s{0,3}<[a-z!?][ -~]{0,40}") {
            prop_assert_eq!(binary(text.as_bytes()), None);
        }
    }
}
