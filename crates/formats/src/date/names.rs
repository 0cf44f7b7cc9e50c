//! The words in dates: months, zones, halves of the day.

/// The starts of the months' names in English, French, German, Spanish, Italian, Portuguese, Dutch,
/// Polish, Russian and Turkish. They are short enough for abbreviations and cases.
const MONTHS: [&[&str]; 12] = [
    &["jan", "ene", "gen", "sty", "\u{44f}\u{43d}\u{432}", "oca"],
    &["feb", "fev", "f\u{e9}v", "lut", "\u{444}\u{435}\u{432}", "\u{15f}ub", "sub"],
    &["mar", "m\u{e4}r", "mrz", "maa", "mrt", "\u{43c}\u{430}\u{440}"],
    &["apr", "avr", "abr", "kwi", "\u{430}\u{43f}\u{440}", "nis"],
    &["may", "mai", "mei", "mag", "maj", "\u{43c}\u{430}\u{44f}", "\u{43c}\u{430}\u{439}"],
    &["jun", "juin", "giu", "cze", "\u{438}\u{44e}\u{43d}", "haz"],
    &["jul", "juil", "lug", "lip", "\u{438}\u{44e}\u{43b}", "tem"],
    &["aug", "aou", "ao\u{fb}", "ago", "sie", "\u{430}\u{432}\u{433}", "a\u{11f}u"],
    &["sep", "set", "wrz", "\u{441}\u{435}\u{43d}", "eyl"],
    &["oct", "okt", "ott", "out", "pa\u{17a}", "\u{43e}\u{43a}\u{442}", "eki"],
    &["nov", "lis", "\u{43d}\u{43e}\u{44f}", "kas"],
    &["dec", "d\u{e9}c", "dez", "dic", "gru", "\u{434}\u{435}\u{43a}", "ara"],
];

/// The number of a month by its name.
pub(super) fn month(name: &str) -> Option<i64> {
    let name = name.to_lowercase();
    (1..).zip(MONTHS).find(|(_, starts)| starts.iter().any(|s| name.starts_with(s))).map(|(n, _)| n)
}

/// What Japanese, Chinese and Korean call the halves of the day.
pub(super) const fn half_day_word() -> [(&'static str, &'static str); 6] {
    [
        ("\u{5348}\u{524d}", "am"),
        ("\u{4e0a}\u{5348}", "am"),
        ("\u{c624}\u{c804}", "am"),
        ("\u{5348}\u{5f8c}", "pm"),
        ("\u{4e0b}\u{5348}", "pm"),
        ("\u{c624}\u{d6c4}", "pm"),
    ]
}

/// The zones RFC 822 names, and those that publishers write most.
pub(super) fn named_zone(name: &str) -> Option<i32> {
    let name = name.rsplit('/').next().unwrap_or(name).to_ascii_uppercase();
    let minutes = match name.as_str() {
        "" | "Z" | "UT" | "UTC" | "GMT" | "WET" => 0,
        "BST" | "CET" | "MET" | "MEZ" | "WEST" | "WAT" => 60,
        "CEST" | "MEST" | "MESZ" | "EET" | "SAST" | "CAT" => 120,
        "EEST" | "MSK" | "EAT" | "TRT" => 180,
        "IST" => 330,
        "WIB" | "ICT" => 420,
        "SGT" | "HKT" | "AWST" | "PHT" => 480,
        "JST" | "KST" => 540,
        "ACST" => 570,
        "AEST" => 600,
        "ACDT" => 630,
        "AEDT" => 660,
        "NZST" => 720,
        "NZDT" => 780,
        "NST" => -210,
        "NDT" => -150,
        "ADT" | "BRT" | "ART" => -180,
        "AST" | "AT" | "EDT" => -240,
        "EST" | "ET" | "CDT" => -300,
        "CST" | "CT" | "MDT" => -360,
        "MST" | "MT" | "PDT" => -420,
        "PST" | "PT" | "AKDT" => -480,
        "AKST" => -540,
        "HST" => -600,
        // The military letters, with the signs that RFC 822 gave them.
        letter => match *letter.as_bytes() {
            [b @ b'A'..=b'I'] => -60 * (i32::from(b - b'A') + 1),
            [b @ b'K'..=b'M'] => -60 * (i32::from(b - b'K') + 10),
            [b @ b'N'..=b'Y'] => 60 * (i32::from(b - b'N') + 1),
            _ => return None,
        },
    };
    Some(minutes * 60)
}
