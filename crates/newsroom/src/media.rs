//! Small files that stories come with: a sound and a picture, different for each story.

/// The size of every sound file.
pub(crate) const SOUND_LENGTH: usize = 2_048;

/// An ID3 tag and MPEG frame headers; nobody is meant to listen.
pub(crate) fn sound(number: i64) -> Vec<u8> {
    let mut bytes = b"ID3\x04\0\0\0\0\0\0".to_vec();
    while bytes.len() < SOUND_LENGTH {
        bytes.extend([0xFF, 0xFB, 0x90, 0x00]);
        bytes.extend(number.to_be_bytes());
    }
    bytes.truncate(SOUND_LENGTH);
    bytes
}

/// A GIF of one pixel; its colour is the story's number.
pub(crate) fn picture(number: i64) -> Vec<u8> {
    let [.., red, green, blue] = number.to_be_bytes();
    let mut bytes = b"GIF89a\x01\0\x01\0\x80\0\0".to_vec();
    bytes.extend([red, green, blue, 0, 0, 0]);
    bytes.extend(b"\x2c\0\0\0\0\x01\0\x01\0\0\x02\x02\x44\x01\0\x3b");
    bytes
}
