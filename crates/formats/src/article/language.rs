//! Which language a text is in, by its script and its smallest words.
//!
//! Only what is plain is told: a text that could be of two languages is for the page's own word.

use super::form::prints;

/// Words enough to tell.
const ENOUGH: usize = 20;
/// No more of a text is looked at.
const MAX_BYTES: usize = 4_000;

/// The most frequent words of each language. Those that several share are in the lists of all of them:
/// left to one, they would speak for it in the texts of the others.
const WORDS: &[(&str, &str)] = &[
    (
        "en",
        "the of and to is that for it was with as be this are from have not they which you were but had",
    ),
    (
        "de",
        "der die das und ist von nicht mit ein eine sich auf für auch als dem des er werden aus bei hat dass wird im",
    ),
    (
        "fr",
        "le la les de des et est un une en du que qui dans pour pas sur au plus par ce il ne avec sont mais cette nous vous été",
    ),
    (
        "es",
        "el la los las de del que y en un una se no es por con para como más su lo al fue pero sus sobre está entre cuando muy también",
    ),
    (
        "it",
        "il la di che e è un una in per non si sono con della del le dei nel alla più anche come gli ma ed delle questo dal",
    ),
    (
        "pt",
        "o os a as e de que do da dos das em um uma se para com não por mais foi ao na no mas seu sua ele são também",
    ),
    (
        "nl",
        "de van het een dat en is in op te zijn met voor niet aan er maar om ook door hij bij dan naar heeft worden deze",
    ),
    ("pl", "i w na z się nie że do jest to jak ale po od za przez tym który są oraz"),
    ("sv", "och att det som på är av för med inte den till om har ett var jag men från"),
    ("da", "og at det som på er af for med ikke den til om har et var jeg men fra blev"),
    ("fi", "ja on ei että se oli myös mutta kun hän ovat joka sekä kuin"),
    ("tr", "ve bir bu için ile çok olarak daha gibi olan ne kadar sonra"),
    ("cs", "a se na je že v to s z do o jako za ale by pro jsou byl"),
    ("ro", "și de în la cu care pe nu un o să se din este mai pentru au fost al"),
    ("id", "yang dan di dengan untuk dari pada ini itu tidak dalam akan oleh juga"),
    ("ru", "и в не на что с по как это из за к его от но он для был"),
    ("uk", "і в не на що з до як це та за від але він для був є"),
];

/// The language of a text, as its primary tag.
pub(super) fn of(text: &str) -> Option<&'static str> {
    let mut end = text.len().min(MAX_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let text = text.get(..end)?;
    by_script(text).or_else(|| by_words(text))
}

/// Scripts that only one large language is written in.
fn by_script(text: &str) -> Option<&'static str> {
    let (mut letters, mut kana, mut han) = (0_usize, 0_usize, 0_usize);
    let (mut hangul, mut greek, mut hebrew, mut thai) = (0_usize, 0_usize, 0_usize, 0_usize);
    let (mut arabic, mut others) = (0_usize, 0_usize);
    for c in text.chars().filter(|c| c.is_alphabetic()) {
        letters += 1;
        match c {
            '\u{3040}'..='\u{30ff}' => kana += 1,
            '\u{4e00}'..='\u{9fff}' => han += 1,
            '\u{ac00}'..='\u{d7a3}' => hangul += 1,
            '\u{370}'..='\u{3ff}' => greek += 1,
            '\u{590}'..='\u{5ff}' => hebrew += 1,
            '\u{e00}'..='\u{e7f}' => thai += 1,
            // Letters that Persian, Urdu and others write with the script of Arabic, which has none
            // of them.
            'پ' | 'چ' | 'ژ' | 'گ' | 'ک' | 'ی' | 'ٹ' | 'ڈ' | 'ڑ' | 'ں' | 'ہ' | 'ے' => {
                others += 1
            }
            '\u{620}'..='\u{6ff}' => arabic += 1,
            _ => {}
        }
    }
    let most = |count: usize| letters >= ENOUGH && count * 2 > letters;
    match () {
        () if most(kana + han) && kana * 10 > han => Some("ja"),
        () if most(han) => Some("zh"),
        () if most(hangul) => Some("ko"),
        () if most(greek) => Some("el"),
        () if most(hebrew) => Some("he"),
        () if most(thai) => Some("th"),
        () if most(arabic) && others * 50 < arabic => Some("ar"),
        () => None,
    }
}

/// The language whose small words are most frequent, by a clear margin.
fn by_words(text: &str) -> Option<&'static str> {
    let words = prints(text);
    let mut scores: Vec<(usize, &str)> = WORDS
        .iter()
        .map(|(language, list)| {
            let known = prints(list);
            (words.iter().filter(|word| known.contains(word)).count(), *language)
        })
        .collect();
    scores.sort_unstable_by(|one, other| other.cmp(one));
    let [(best, language), (second, _), ..] = scores.as_slice() else { return None };
    (words.len() >= ENOUGH && best * 8 > words.len() && *best * 3 > second * 4).then_some(*language)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn languages_are_told_by_their_words_and_scripts() {
        for (language, text) in [
            (
                "en",
                "The storm that hit the harbour was the worst for years, and it is not over for those which were at sea.",
            ),
            (
                "de",
                "Der Sturm, der den Hafen traf, war der schlimmste seit Jahren, und er ist für die Schiffe auf See nicht vorbei.",
            ),
            (
                "fr",
                "La tempête qui a frappé le port est la plus forte depuis des années et elle n'est pas finie pour les bateaux.",
            ),
            (
                "ru",
                "Буря, которая обрушилась на порт, была самой сильной за многие годы, и она не закончилась для тех, кто в море и на берегу, как это было.",
            ),
            (
                "ja",
                "港を襲った嵐はここ数年で最悪のものであり、海上にいる船にとってはまだ終わっていない。",
            ),
            (
                "ko",
                "항구를 강타한 폭풍은 최근 몇 년 동안 가장 심했으며 바다에 있는 배들에게는 아직 끝나지 않았다.",
            ),
        ] {
            assert_eq!(of(text), Some(language), "{text}");
        }
        let arabic = "أغلق الميناء يوم الثلاثاء بعد عاصفة شديدة مزقت حبال سفينتين كبيرتين";
        assert_eq!(of(arabic), Some("ar"));
        assert_eq!(
            of("بندر پس از طوفان شدید روز سه‌شنبه بسته شد و دو کشتی از اسکله جدا شدند"),
            None
        );
        assert_eq!(of("Storm"), None);
        assert_eq!(of("Alpha Beta Gamma ".repeat(20).as_str()), None);
    }
}
