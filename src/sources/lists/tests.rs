//! Lists of all formats, sound and broken.

use std::time::Duration;

use feedmill_formats::url::KeyRules;
use proptest::prelude::*;

use super::*;
use crate::model::{
    Access, IngestionMode, Managed, NewSource, PollPolicy, RefetchPolicy, Source, SourceId, Ts,
    Website,
};
use crate::sources::plan::{Followed, Verdict};
use crate::sources::specify;

/// What a list says, row by row: the line, and the source or the code of its refusal.
fn read_as(text: &str) -> Vec<(u64, String)> {
    let mut followed = Followed::of(&[], KeyRules::default());
    let rows = read(text.as_bytes(), None).unwrap().rows;
    let told = rows.iter().map(|row| match &row.entry {
        Err(reason) => (row.line, reason.clone()),
        Ok(entry) => match followed.judge(entry, |_| Ok(())) {
            Verdict::Add { new, .. } => {
                let spec = &new.spec;
                let labels =
                    spec.category.iter().chain(&spec.tags).map(|label| format!(" #{label}"));
                let channels = spec.feed_urls.iter().chain(&spec.sitemap_urls);
                let off = new.disabled.iter().map(|reason| format!(" off: {reason}"));
                let parts = channels.map(|url| format!(" {url}")).chain(labels).chain(off);
                (row.line, format!("{} {}{}", spec.name, spec.url, parts.collect::<String>()))
            }
            Verdict::Known { by, .. } => (row.line, format!("known by {by}")),
            Verdict::Refused { code, .. } => (row.line, code.to_owned()),
        },
    });
    told.collect()
}

fn told(lines: &[(u64, &str)]) -> Vec<(u64, String)> {
    lines.iter().map(|(line, text)| (*line, (*text).to_owned())).collect()
}

#[test]
fn a_spreadsheet_of_home_pages_reads() {
    let sheet = "\u{feff}Name;URL;Rate Limit;Title Selector;Body Selector\r\n\
        Alder;https://alder.example/;10s;h1;\"article .text, .more\"\r\n\
        ;;;;\r\n\
        \"Birch \"\"B\"\"\";https://birch.example/news;;;\r\n\
        Alder again;http://alder.example;2;;\r\n\
        Cedar;cedar;1;;\r\n\
        Dogwood;https://dogwood.example/;soon;;\r\n";
    let rows = told(&[
        (2, "Alder https://alder.example/"),
        (4, "Birch \"B\" https://birch.example/news"),
        (5, "known by Alder"),
        (6, "url_malformed"),
        (7, "bad_field"),
    ]);
    assert_eq!(read_as(sheet), rows);
}

#[test]
fn a_table_has_any_separator_and_order_and_says_what_it_does_not_know() {
    for separator in [",", ";", "\t"] {
        let table =
            ["tags", "feed url", "mood", "category", "enabled", "disable_reason"].join(separator);
        let row = [
            "\"a b;c\"",
            "\"https://a.example/1 https://a.example/2\"",
            "x",
            "world",
            "no",
            "asked",
        ];
        let table = format!("# ours\n\n{table}\n{}\n", row.join(separator));
        let list = read(table.as_bytes(), None).unwrap();
        assert_eq!(list.format, Format::Csv);
        assert_eq!(list.notes, ["the column `mood` means nothing here"]);
        let rows = "a.example https://a.example/ https://a.example/1 https://a.example/2 #world #a b #c off: asked";
        assert_eq!(read_as(&table), told(&[(4, rows)]), "{separator:?}");
    }
}

#[test]
fn outlines_read_with_the_first_as_category_and_the_rest_as_tags() {
    let list = "<opml><body>\n<outline text='News'><outline text='World'>\n\
        <outline text='A' xmlUrl='https://a.example/feed' htmlUrl='https://a.example/home' category='x,News/World'/>\
        </outline></outline>\n<outline xmlUrl='https://b.example/feed'/></body></opml>";
    let rows = told(&[
        (3, "A https://a.example/home https://a.example/feed #News #World #x"),
        (4, "b.example https://b.example/ https://b.example/feed"),
    ]);
    assert_eq!(read_as(list), rows);
}

#[test]
fn json_reads_in_all_its_forms() {
    for (list, rows) in [
        (
            "[\"https://a.example/rss\",\n \"https://b.example/\"]",
            &[
                (1, "a.example https://a.example/ https://a.example/rss"),
                (2, "b.example https://b.example/"),
            ][..],
        ),
        (
            "{\"seeds\": [\n{\"id\": \"url:https://a.example/feed.xml\"},\n{\"url\": \"https://b.example/atom.xml\", \"label\": \"B\", \"cron\": \"* *\"},\n{\"guid\": \"https://c.example/\"}]}",
            &[
                (2, "a.example https://a.example/ https://a.example/feed.xml"),
                (3, "B https://b.example/ https://b.example/atom.xml"),
                (4, "c.example https://c.example/"),
            ],
        ),
        (
            "{\"version\": \"2.0\", \"workflow\": {\"stages\": [\"a\"]}, \"feeds\": {\n\"jobs_report\": [\n{\"url\": \"https://www.google.com/alerts/1\", \"search_term\": \"jobs [x]\"},\n{\"url\": \"https://www.google.com/alerts/2\"}],\n\"inflation\": [{\"url\": \"https://www.google.com/alerts/1\"}]}}",
            &[
                (
                    3,
                    "jobs [x] https://www.google.com/ https://www.google.com/alerts/1 #jobs_report",
                ),
                (
                    4,
                    "www.google.com https://www.google.com/ https://www.google.com/alerts/2 #jobs_report",
                ),
                (
                    5,
                    "www.google.com (inflation) https://www.google.com/ https://www.google.com/alerts/1 #inflation",
                ),
            ],
        ),
        (
            "{\"inflation\": [\"https://a.example/alerts\"], \"other\": []}",
            &[(1, "a.example https://a.example/ https://a.example/alerts #inflation")],
        ),
        (
            "{\"sources\": [{\"id\": \"0c\", \"name\": \"A\", \"url\": \"https://a.example/\", \"rate_limit\": \"1s\", \"max_depth\": 2, \"time\": [\"UTC\"],\n \"selectors\": {\"article\": {\"title\": \"h1\"}}, \"enabled\": false, \"disable_reason\": \"gone\", \"feed_url\": null, \"ingestion_mode\": \"spider\"}], \"total\": 1}",
            &[(1, "A https://a.example/ off: gone")],
        ),
        (
            "[{\"source_type\": \"atom\", \"url\": \"https://a.example/x\", \"name\": \"A\", \"polling_interval\": \"15m\", \"enabled_at\": null}]",
            &[(1, "A https://a.example/ https://a.example/x off: disabled in its list")],
        ),
        ("{\"name\": \"A\", \"url\": \"https://a.example/\"}", &[(1, "A https://a.example/")]),
        (
            "[1, {\"name\": \"A\"}]",
            &[(1, "`1` is neither an address nor an object"), (1, "no_url")],
        ),
    ] {
        assert_eq!(read_as(list), told(rows), "{list}");
    }
    let list =
        read(b"[{\"url\": \"https://a.example/\", \"cron\": 1, \"mood\": 2, \"etag\": 3}]", None)
            .unwrap();
    assert_eq!(
        list.notes,
        ["the field `cron` means nothing here", "the field `mood` means nothing here"]
    );
}

#[test]
fn plain_addresses_read() {
    let list = "# mine\n\nhttps://a.example/feed\n  https://b.example/  \nnonsense\n\
                https://c.example/feed # remark\nhttps://d.example/feed proxy=http://10.0.0.1\n";
    let rows = told(&[
        (3, "a.example https://a.example/ https://a.example/feed"),
        (4, "b.example https://b.example/"),
        (5, "url_malformed"),
        (6, "c.example https://c.example/ https://c.example/feed"),
        (7, MORE_THAN_AN_ADDRESS),
    ]);
    assert_eq!(read_as(list), rows);
}

#[test]
fn broken_lists_are_refused_whole() {
    for (list, code, words) in [
        ("", "empty_list", "empty"),
        ("# nothing\n\n", "empty_list", "empty"),
        ("name|url\nA|https://a.example/\n", "unknown_list", "line 1 is `name|url`"),
        ("Alder,https://a.example/\n", "unknown_list", "first line names its columns"),
        ("name,category\nA,b\n", "no_column", "no column for an address"),
        ("Name;Rate Limit\nA;2s\n", "no_column", "`Name;Rate Limit`"),
        ("name,url\n\"A,https://a.example/\nB,https://b.example/\n", "unclosed_quote", "line 2"),
        ("[\"https://a.example/\",", "not_json", "line 1"),
        ("{\"a\": 1}", "no_array", "array"),
        ("[]", "empty_list", "empty"),
        ("<rss></rss>", "not_opml", "<opml>"),
        ("<opml><body><outline xmlUrl='https://a.example/'/>", "truncated", "ends too early"),
    ] {
        let error = read(list.as_bytes(), None).unwrap_err();
        assert_eq!(error.code(), code, "{list}: {error}");
        assert!(error.to_string().contains(words), "{error}");
    }
    let named = read(b"colour\nred\n", Some(Format::Csv)).unwrap_err();
    assert_eq!(named.code(), "no_column");
    assert!(named.to_string().contains("`colour`"), "{named}");
    assert_eq!(read(&vec![b'a'; MAX_BYTES + 1], None).unwrap_err().code(), "too_large");
}

#[test]
fn a_row_that_is_wrong_does_not_spoil_the_others() {
    let huge = "x".repeat(3 << 20);
    let table = format!(
        "name,url\nA,https://a.example/\n{huge},https://b.example/\nC,https://c.example/,1\n\"D\nd\",https://d.example/\nE,https://e.example/\u{0}\nF,https://f.example/\n"
    );
    let rows = read_as(&table);
    assert_eq!(rows[0].1, "A https://a.example/");
    assert!(rows[1].1.contains("1048576 are the most"), "{rows:?}");
    assert!(rows[2].1.contains("3 values for 2 columns"), "{rows:?}");
    assert_eq!(rows[3], (5, "bad_name".to_owned()), "a line end is no part of a name");
    assert_eq!((rows[4].0, rows[5].clone()), (7, (8, "F https://f.example/".to_owned())));
    let json =
        format!("[\"https://a.example/\",\n\"https://b.example/{huge}\",\n\"https://c.example/\"]");
    let rows = read_as(&json);
    assert!(rows[1].0 == 2 && rows[1].1.contains("are the most") && rows[2].0 == 3);
}

#[test]
fn wide_characters_and_marks_read() {
    let table = "name,url\nÄrlig,https://a.example/\n";
    let utf16: Vec<u8> =
        std::iter::once(0xfeff).chain(table.encode_utf16()).flat_map(u16::to_le_bytes).collect();
    let bare: Vec<u8> = table.encode_utf16().flat_map(u16::to_le_bytes).collect();
    for body in [utf16, bare, format!("\u{feff}{table}").into_bytes()] {
        let list = read(&body, None).unwrap();
        let name = &list.rows[0].entry.as_ref().unwrap().said[0];
        assert_eq!(*name, ("name".to_owned(), json!("Ärlig")));
    }
}

fn any_source() -> impl Strategy<Value = Source> {
    let words = || "[a-zA-Zä,\"'#= -]{0,12}[a-z\"]";
    let span = || prop::option::of((1..10_000_u64).prop_map(Duration::from_secs));
    let channels = |path: &'static str| {
        prop::collection::btree_set("[a-z]{1,6}", 0..3).prop_map(move |names| {
            let url = |name: &String| format!("https://{name}.example/{path};x={name}?a=1,2");
            names.iter().map(url).collect::<Vec<_>>()
        })
    };
    let list = ("[a-z]{1,5} > a", prop::option::of("[.][a-z]{1,5}"), 1..9_u16).prop_map(
        |(article_selector, pagination_selector, max_pages)| Website::List {
            article_selector,
            pagination_selector,
            max_pages,
        },
    );
    let website = prop::option::of(prop_oneof![Just(Website::Direct), list]);
    let policies = (
        prop::option::of(prop::sample::select(PollPolicy::ALL)),
        prop::option::of(prop::sample::select(RefetchPolicy::ALL)),
        prop::sample::select(IngestionMode::ALL),
    );
    let labels = (
        prop::option::of(words()),
        prop::collection::btree_set(words(), 0..3),
        prop::option::of("[.]x, h[1-3]"),
        prop::collection::vec("[.][a-z]{1,4}", 0..3),
    );
    let numbers = (1..=10_u8, prop::option::of(1..9_i16), span(), span(), any::<bool>());
    (words(), (channels("feed"), channels("sitemap.xml")), labels, policies, numbers, website)
        .prop_map(|(name, (feed_urls, sitemap_urls), labels, policies, numbers, website)| {
            let (category, tags, body, exclude) = labels;
            let (poll_policy, refetch, ingestion_mode) = policies;
            let (priority, max_depth, rate_limit, min_interval, disabled) = numbers;
            let mut spec = NewSource {
                feed_urls,
                sitemap_urls,
                ingestion_mode,
                category: category.map(|text| text.trim().to_owned()),
                tags: tags.into_iter().map(|text| text.trim().to_owned()).collect(),
                priority,
                rate_limit,
                poll_policy,
                min_interval,
                refetch,
                website,
                max_depth,
                article_url_patterns: vec!["/news/[0-9]+".into()],
                access: Access { user_agent: Some("A/1".into()), ..Access::default() },
                managed: Some(Managed {
                    by: "http://m.example/".into(),
                    id: "7".into(),
                    says: vec!["url".into()],
                }),
                ..NewSource::new(name.trim(), "https://home.example/a")
            };
            spec.tags.sort();
            spec.tags.dedup();
            spec.selectors.body = body.and_then(|text| text.parse().ok());
            spec.selectors.exclude = exclude.iter().filter_map(|text| text.parse().ok()).collect();
            Source {
                id: SourceId(1),
                uuid: String::new(),
                spec,
                enabled_at: (!disabled).then_some(Ts::from_ms(0)),
                disabled_at: disabled.then_some(Ts::from_ms(0)),
                disable_reason: disabled.then(|| "why, \"not\"".to_owned()),
                created_at: Ts::from_ms(0),
            }
        })
}

proptest! {
    #[test]
    fn what_is_exported_is_imported_as_it_was(source in any_source()) {
        for (format, raw_cells) in [(Format::Json, false), (Format::Csv, false), (Format::Csv, true)] {
            let written = write(std::slice::from_ref(&source), format, raw_cells);
            // Whoever wants cells as they are cannot tell an apostrophe of theirs from one of ours.
            if raw_cells && written.contains('\'') {
                continue;
            }
            let list = read(written.as_bytes(), None).unwrap();
            prop_assert_eq!((list.format, list.rows.len(), list.notes), (format, 1, vec![]), "{}", written);
            let entry = list.rows[0].entry.clone().unwrap();
            prop_assert_eq!(&entry.disabled, &source.disable_reason);
            let mut spec = specify(&entry.wanted(), |_| Ok(())).unwrap();
            if format == Format::Csv {
                // A table has no room for it.
                spec.managed = source.spec.managed.clone();
            }
            prop_assert_eq!(&spec, &source.spec, "{}", written);
        }
    }

    #[test]
    fn any_text_ends_well(text in "[\\[\\]{}\",:;a-z\\\\\n<> ]{0,60}", name in "(url|name,url|\\[|\\{\"seeds\":\\[)") {
        for text in [text.clone(), format!("{name}\n{text}")] {
            if let Ok(list) = read(text.as_bytes(), None) {
                prop_assert!(list.rows.iter().all(|row| row.line >= 1));
            }
        }
    }
}
