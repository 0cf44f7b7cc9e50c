//! What bytes are by their first few, whatever their label says.
//!
//! Only forms that no page or feed can begin with are told, and noise that is no text in any encoding;
//! everything else is left to parsers.

/// So many bytes tell noise from text.
const LOOKED_AT: usize = 1024;
/// Fewer say nothing.
const ENOUGH: usize = 64;

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
        .or_else(|| is_noise(bytes).then_some("binary"))
}

/// Whether bytes are no text: of noise every tenth is a character that no text has, and of text with
/// a few strays not even every fiftieth.
fn is_noise(bytes: &[u8]) -> bool {
    let looked_at = bytes.get(..bytes.len().min(LOOKED_AT)).unwrap_or_default();
    // Two bytes for each character: which they are is for whoever decodes them.
    let wide = looked_at.iter().take(4).any(|byte| matches!(byte, 0 | 0xfe | 0xff));
    let stray = |byte: &&u8| matches!(byte, 1..=8 | 0x0e..=0x1a | 0x1c..=0x1f);
    let strays = looked_at.iter().filter(stray).count();
    !wide && looked_at.len() >= ENOUGH && strays * 25 > looked_at.len()
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
        let noise: Vec<u8> = (0..500_u32).map(|n| (n * 7919 / 31 % 251 + 2) as u8).collect();
        assert_eq!(binary(&noise), Some("binary"));
        let strays = "<p>\u{1}A page with strays.\u{2} </p>".replace("strays", &"word ".repeat(20));
        assert_eq!(binary(strays.as_bytes()), None);
        let wide: Vec<u8> =
            "第一章。".repeat(60).encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert_eq!(binary(&[&b"\xff\xfe"[..], &wide].concat()), None);
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
