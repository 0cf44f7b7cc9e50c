//! The form of a text: how long it is, how it is punctuated, which words it uses.
//!
//! One pass over a block's characters. Words are kept as fingerprints of their lower-case letters,
//! which is all that comparing texts needs. Phrase lists are only ever hints to the model.

use std::collections::HashSet;
use std::hash::BuildHasherDefault;
use std::ops::Range;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind};

use super::page::weight;
use crate::simhash::is_unspaced;

/// Words of many languages that mean little by themselves.
const FUNCTION_WORDS: &str = "\
    the of and to in a is that for it on was with as be at by this are or from have an not his her \
    they which you were but had we has been their he she will would there what if can all more who \
    when one about out up so said its than into them could also after how our some do no my \
    der die das und zu den ist von nicht mit es ein eine sich auf für auch als dem des er sie \
    werden aus bei hat dass wir wird im am um noch wie nach über einen zum einer war haben nur oder \
    aber vor zur bis mehr durch man sind wenn kann diese was \
    le la les de et un une du en que qui dans pour est pas sur au plus par ce il ne se avec sont \
    son mais ou ses cette nous vous ont aux été leur comme elle y fait \
    el los las del por con una para como más su lo al fue este ha pero sus sobre está entre cuando \
    muy sin ser también desde \
    di che è per non si da sono della dei nel alla più anche gli i ma ed delle o questo dal \
    os dos das em um uma com não mais foi ao na seu sua ele ela \
    van het een dat op te zijn met voor niet aan maar om ook door hij bij dan naar heeft worden deze \
    w z się nie że jest jak ale po od za przez tym \
    och att det som på är av för med inte till har ett jag og ikke til af \
    и в не на что с по как это из за к а его от но он у для \
    ve bir bu için ile çok olarak daha gibi olan";

/// Phrases of what surrounds articles.
const AROUND: &str = "\
    cookie|newsletter|subscribe|sign up|sign in|login|log in|abonn|anmeld|registr|\
    all rights reserved|alle rechte|copyright|©|privacy|datenschutz|impressum|terms of|nutzungsbed|\
    click here|read more|weiterlesen|mehr lesen|lire la suite|leer más|lees ook|lesen sie auch|\
    read also|also read|share this|share on|teilen|tweet|facebook|whatsapp|kommentar|comment|\
    antwort|reply|advertis|anzeige|werbung|sponsor|follow us|folgen sie|download|javascript|browser|\
    related|more from|you may|recommend|most popular|skip to|menu|search|suche|tags:|tag:|\
    filed under|posted in|schlagw|kategorie|print|drucken|e-mail|email|disclaimer|affiliate|\
    commission|loading|continue reading|story continues|min read|minute read|photo by|image credit|\
    getty|subscriber|premium|support us|donate|spenden|vorheriger|nächster|previous|next post|\
    next article|back to top|nach oben|about the author|über den autor|Über den autor|\
    lire aussi|lea también|lee también|leer también|leggi anche|leia também|lees meer|czytaj t|\
    zobacz t|читайте также|Читайте также|läs också|läs mer|læs også|les også|lue myös|devamını oku|\
    te puede interesar|partager|compartir|condividi|compartilh|udostępnij|поделиться|Поделиться|\
    suscr|s'abonner|s’abonner|abbonati|assine |tous droits|todos los derechos|todos os direitos|\
    tutti i diritti|wszelkie prawa|все права|Все права|publicidad|publicité|pubblicità|reklam|\
    реклама|Реклама|advertentie|annonce|comentario|commenti|комментари|Комментари|関連記事|\
    続きを読む|相关阅读|相关新闻|版权|版權|责任编辑|責任編輯|무단 전재|اقرأ أيضا";

/// Phrases of what stands behind an article: about its author, its company, its use.
const BEHIND: &str = "\
    is a writer|is a reporter|is a journalist|is a freelance|is a senior|is an editor|is the editor|\
    is the author|is the founder|is a professor|is an associate|is a staff|is a contributor|\
    is a columnist|is a correspondent|is editor|is author of|is co-founder|is chief|can be reached|\
    reached at|follow him|follow her|follow them|on twitter|on linkedin|on instagram|\
    originally published|originally appeared|first appeared|first published|views expressed|\
    opinions expressed|do not necessarily|for more information|for informational purposes|\
    not intended|this article was|this story was|this post was|this content|press release|\
    contributed to this|reporting by|editing by|edited by|written by|all rights|\
    ist redakteur|ist freie|ist autor|ist journalist|arbeitet als|schreibt für|schreibt über|\
    geboren in|studierte|est journaliste|est rédacteur|es periodista|è giornalista|\
    correction:|editor's note|editor’s note|note:|update:|disclosure|disclaimer|haftung|\
    have a tip|got a tip|contact us|write to us|let us know|join the|join our|sign up|get the latest|\
    stay up to date|support our|become a|subscribe|listen to|watch:|see also|read next|read:|related:|\
    more:|also:|photo:|image:|foto:|bild:|quelle:|source:|sources:|with files from|the associated press";

/// Words that start a line about its author, its date or a picture's source.
const BYLINES: &str = "\
    by|von|par|por|di|da|door|av|af|od|autor|autorin|author|written by|text|foto|photo|bild|image|\
    quelle|source|credit|posted|published|updated|veröffentlicht|aktualisiert|stand|publié|\
    publicado|editor|reporting by|edited by";

/// What a block's characters say.
#[derive(Clone, Debug, Default)]
pub(super) struct Form {
    /// Characters, by weight.
    pub chars: f32,
    /// Words: runs of letters and digits; a sign of a script without spaces is half a word.
    pub words: f32,
    /// Where its words stand among the page's.
    pub hashes: Range<usize>,
    pub commas: f32,
    pub sentences: f32,
    /// Shares of the words.
    pub capitals: f32,
    pub numbers: f32,
    pub function: f32,
    pub ends_sentence: bool,
    pub ends_colon: bool,
    pub asks: bool,
    pub shouts: bool,
    pub starts_low: bool,
    pub has_separator: bool,
    pub has_date: bool,
    pub is_byline: bool,
    /// How many phrases of what surrounds articles it has.
    pub around: f32,
    /// How many phrases of what stands behind articles it has.
    pub behind: f32,
    /// Whether it breaks off.
    pub trails: bool,
    /// Whether it has an address of the web or of mail.
    pub has_address: bool,
}

/// Fingerprints are spread enough to be their own hash.
#[derive(Default)]
pub(super) struct Spread(u64);

impl std::hash::Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = xxhash_rust::xxh3::xxh3_64(bytes);
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    }
}

/// A set of fingerprints.
pub(super) type Prints = HashSet<u64, BuildHasherDefault<Spread>>;

/// The fingerprint of a word, as its characters come.
#[derive(Clone, Copy)]
struct Print(u64);

impl Print {
    const NEW: Self = Self(0xcbf2_9ce4_8422_2325);

    fn add(&mut self, c: char) {
        if c.is_ascii() {
            self.mix(u64::from(c.to_ascii_lowercase()));
        } else {
            c.to_lowercase().for_each(|c| self.mix(u64::from(c)));
        }
    }

    fn mix(&mut self, value: u64) {
        self.0 = (self.0 ^ value).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(5);
    }
}

/// The words of a text as fingerprints.
pub(super) fn prints(text: &str) -> Vec<u64> {
    let mut out = Vec::new();
    Form::read(text, &mut out);
    out
}

/// The fingerprints of every `n` words in a row.
pub(super) fn shingles(words: &[u64], n: usize) -> impl Iterator<Item = u64> {
    words.windows(n).map(|run| {
        run.iter().fold(0_u64, |sum, word| {
            (sum.rotate_left(21) ^ word).wrapping_mul(0x2545_f491_4f6c_dd1d)
        })
    })
}

static FUNCTION: LazyLock<Prints> = LazyLock::new(|| {
    let print = |word: &str| {
        let mut print = Print::NEW;
        word.chars().for_each(|c| print.add(c));
        print.0
    };
    FUNCTION_WORDS.split_ascii_whitespace().map(print).collect()
});

fn finder(phrases: &str) -> Option<AhoCorasick> {
    let builder = &mut AhoCorasick::builder();
    let builder = builder.ascii_case_insensitive(true).kind(Some(AhoCorasickKind::DFA));
    builder.match_kind(aho_corasick::MatchKind::LeftmostFirst).build(phrases.split('|')).ok()
}

static PHRASES: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| finder(AROUND));
static LAST_PHRASES: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| finder(BEHIND));

impl Form {
    /// Reads a text, and puts the fingerprints of its words behind the others.
    pub(super) fn read(text: &str, words: &mut Vec<u64>) -> Self {
        let mut form = Self { hashes: words.len()..words.len(), ..Self::default() };
        let (mut capitals, mut numbers, mut signs) = (0_u32, 0_u32, 0_u32);
        let (mut chars, mut commas, mut sentences) = (0_u32, 0_u32, 0_u32);
        let (mut has_upper, mut has_lower) = (false, false);
        let mut word = Word::default();
        let mut rest = text.chars().peekable();
        while let Some(c) = rest.next() {
            chars += weight(c);
            if c.is_alphanumeric() || c == '_' {
                let unspaced = !c.is_ascii() && is_unspaced(c);
                if unspaced {
                    word.end(words, &mut capitals, &mut numbers);
                    signs += 1;
                }
                has_upper |= c.is_uppercase();
                has_lower |= c.is_lowercase();
                word.add(c);
                if unspaced {
                    word.end(words, &mut capitals, &mut numbers);
                }
                continue;
            }
            word.end(words, &mut capitals, &mut numbers);
            match c {
                ',' | '，' | '、' | '،' => commas += 1,
                '.' | '!' | '?' | '…' => {
                    let ends = |next: &char| {
                        next.is_whitespace() || matches!(next, '"' | '”' | '»' | '\'' | '’' | ')')
                    };
                    sentences += u32::from(rest.peek().is_none_or(ends));
                }
                '。' | '！' | '？' | '؟' | '।' | '۔' => sentences += 1,
                '|' | '·' | '»' | '›' | '→' => form.has_separator = true,
                _ => {}
            }
        }
        word.end(words, &mut capitals, &mut numbers);
        form.hashes.end = words.len();
        let count = form.hashes.len();
        let own = words.get(form.hashes.clone()).unwrap_or_default();
        let share = |part: u32| ratio(part, narrow(count));
        form.function = share(narrow(own.iter().filter(|word| FUNCTION.contains(word)).count()));
        (form.capitals, form.numbers) = (share(capitals), share(numbers));
        form.chars = real(chars);
        form.words = real(narrow(count)) - 0.5 * real(signs);
        form.commas = real(commas);
        form.sentences = real(sentences);
        form.shouts = has_upper && !has_lower;
        form.starts_low = text.starts_with(char::is_lowercase);
        form.ends(text);
        form.has_date = has_date(text);
        form.is_byline = is_byline(text);
        let around = found(&PHRASES, text);
        form.around = if form.chars < 100.0 { around } else { around / 2.0 };
        form.behind = found(&LAST_PHRASES, text);
        form.trails = text.ends_with('…') || text.ends_with("...");
        form.has_address = ["@", "http", "www."].iter().any(|sign| text.contains(sign));
        form
    }

    fn ends(&mut self, text: &str) {
        let last = text.chars().next_back().unwrap_or(' ');
        self.ends_colon = last == ':';
        self.asks = last == '?';
        self.ends_sentence = matches!(
            last,
            '.' | '!'
                | '?'
                | '…'
                | '。'
                | '！'
                | '？'
                | '"'
                | '”'
                | '»'
                | '“'
                | '\''
                | '’'
                | ')'
                | '」'
                | '؟'
                | '।'
                | '۔'
        );
    }
}

/// A word that is being read.
struct Word {
    print: Print,
    chars: u32,
    capital: bool,
    digits: bool,
}

impl Default for Word {
    fn default() -> Self {
        Self { print: Print::NEW, chars: 0, capital: false, digits: true }
    }
}

impl Word {
    fn add(&mut self, c: char) {
        if self.chars == 0 {
            self.capital = c.is_uppercase();
        }
        self.digits &= c.is_numeric();
        self.chars += 1;
        self.print.add(c);
    }

    fn end(&mut self, words: &mut Vec<u64>, capitals: &mut u32, numbers: &mut u32) {
        if self.chars > 0 {
            words.push(self.print.0);
            *capitals += u32::from(self.capital);
            *numbers += u32::from(self.digits);
            *self = Self::default();
        }
    }
}

/// How many phrases of a list the beginning of a text has, at most three.
fn found(phrases: &Option<AhoCorasick>, text: &str) -> f32 {
    let bytes = text.as_bytes();
    let start = bytes.get(..400).unwrap_or(bytes);
    let Some(phrases) = phrases else { return 0.0 };
    real(narrow(phrases.find_iter(start).take(3).count()))
}

fn is_byline(text: &str) -> bool {
    BYLINES.split('|').any(|word| {
        let start = text.get(..word.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(word) || starts_folded(start, word))
            && text.get(word.len()..).is_some_and(|rest| rest.starts_with([' ', ':']))
    })
}

fn starts_folded(start: &str, word: &str) -> bool {
    !word.is_ascii() && start.to_lowercase() == word
}

/// Whether the beginning of a text has a year, a date in numbers, or a time of day.
fn has_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    let bytes = bytes.get(..200).unwrap_or(bytes);
    let mut runs = Vec::new();
    let mut at = 0;
    while let Some(start) = bytes.iter().skip(at).position(u8::is_ascii_digit).map(|gap| at + gap) {
        let length = bytes.iter().skip(start).take_while(|byte| byte.is_ascii_digit()).count();
        let before = start.checked_sub(1).and_then(|at| bytes.get(at)).copied().unwrap_or(b' ');
        let after = bytes.get(start + length).copied().unwrap_or(b' ');
        let bound = !before.is_ascii_alphanumeric() && !after.is_ascii_alphanumeric();
        let first_two = bytes.get(start..start + 2);
        if bound && length == 4 && matches!(first_two, Some(b"19" | b"20")) {
            return true;
        }
        runs.push((start, length, before, after));
        at = start + length;
    }
    let near =
        |one: &(usize, usize, u8, u8), other: &(usize, usize, u8, u8)| one.0 + one.1 + 1 == other.0;
    runs.windows(2).any(|pair| match pair {
        [hour, minute] => near(hour, minute) && hour.3 == b':' && hour.1 <= 2 && minute.1 == 2,
        _ => false,
    }) || runs.windows(3).any(|three| match three {
        [day, month, year] => {
            let dotted = |run: &(usize, usize, u8, u8)| matches!(run.3, b'.' | b'/') && run.1 <= 2;
            near(day, month) && near(month, year) && dotted(day) && dotted(month) && year.1 >= 2
        }
        _ => false,
    })
}

/// A count as a number.
#[expect(clippy::cast_precision_loss, reason = "counts of a page are far below 2^24")]
pub(super) const fn real(count: u32) -> f32 {
    count as f32
}

/// A count that fits.
pub(super) fn narrow(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// A count as a number.
pub(super) fn count(count: usize) -> f32 {
    real(narrow(count))
}

fn ratio(part: u32, whole: u32) -> f32 {
    real(part) / real(whole.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(text: &str) -> Form {
        Form::read(text, &mut Vec::new())
    }

    #[test]
    fn a_sentence() {
        let form = form("The dog, it seems, slept until 10 o'clock. Why?");
        assert!((form.words - 10.0).abs() < 0.01, "{}", form.words);
        assert!((form.commas - 2.0).abs() < 0.01 && (form.sentences - 2.0).abs() < 0.01);
        assert!(form.ends_sentence && form.asks && !form.shouts && !form.starts_low);
        assert!((form.capitals - 0.2).abs() < 0.01 && (form.numbers - 0.1).abs() < 0.01);
    }

    #[test]
    fn scripts_without_spaces_weigh_more() {
        let form = form("日本語の記事。");
        assert!((form.words - 3.0).abs() < 0.01, "{}", form.words);
        assert!((form.chars - 19.0).abs() < 0.01, "{}", form.chars);
        assert!(form.ends_sentence && (form.sentences - 1.0).abs() < 0.01);
    }

    #[test]
    fn words_are_the_same_in_any_case() {
        assert_eq!(prints("Der ÄRGER war groß"), prints("der ärger WAR groß"));
        assert_ne!(prints("dog"), prints("god"));
        assert_eq!(shingles(&prints("a b c d"), 3).count(), 2);
        assert_eq!(shingles(&prints("a b"), 3).count(), 0);
    }

    #[test]
    fn dates_and_bylines() {
        for text in ["May 2026", "on 3.5.26", "at 10:30", "1/12/2020"] {
            assert!(has_date(text), "{text}");
        }
        for text in ["about 300 people", "A1999B", "1.5 percent", "12 or 13"] {
            assert!(!has_date(text), "{text}");
        }
        for text in ["By Jane", "VERÖFFENTLICHT am", "Foto: x", "written by x"] {
            assert!(is_byline(text), "{text}");
        }
        assert!(!is_byline("Bystanders") && !is_byline("by"));
        assert!((form("Read more: sign up").around - 2.0).abs() < 0.01);
    }
}
