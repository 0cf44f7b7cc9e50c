//! Dates as publishers write them, and the instants that they mean.

use proptest::prelude::*;

use super::*;

#[track_caller]
fn reads(text: &str, expected: &str) {
    assert_eq!(parse(text).map(|at| at.to_string()).as_deref(), Some(expected), "{text}");
}

#[test]
fn iso_8601_and_its_profiles() {
    for (text, expected) in [
        ("2009-04-08T14:25:12Z", "2009-04-08T14:25:12Z"),
        ("9999-12-31T23:59:59Z", "9999-12-30T22:00:00Z"),
        ("2004-06-02T19:07:55-04:00", "2004-06-02T23:07:55Z"),
        ("2009-12-08T16:59:02.563-0800", "2009-12-09T00:59:02.563Z"),
        ("2018-01-06 08:00", "2018-01-06T08:00:00Z"),
        ("2006-01-17T12:35:9+01:00", "2006-01-17T11:35:09Z"),
        ("2003-07-01 T 01:55:07-05:00", "2003-07-01T06:55:07Z"),
        ("20021231T192030,45+01", "2002-12-31T18:20:30.45Z"),
        ("2023-12-16", "2023-12-16T00:00:00Z"),
        ("2002-12", "2002-12-01T00:00:00Z"),
        ("2003", "2003-01-01T00:00:00Z"),
        ("2020-060", "2020-02-29T00:00:00Z"),
        ("2020/1/10 14:33:00", "2020-01-10T14:33:00Z"),
        ("2020-02-28T24:00:00Z", "2020-02-29T00:00:00Z"),
        ("2016-12-31T23:59:60Z", "2017-01-01T00:00:00Z"),
        ("2003-06-31T15:51:30Z", "2003-07-01T15:51:30Z"),
        ("2003-13-01T25:61:61Z", "2004-01-02T02:02:01Z"),
        ("2003-012-31T10:14:55+00:00", "2003-12-31T10:14:55Z"),
        ("2013-01-27-01:00", "2013-01-27T00:00:00Z"),
        ("-03-12", "2003-12-01T00:00:00Z"),
        ("-9912", "1999-12-01T00:00:00Z"),
        ("03335", "2003-12-01T00:00:00Z"),
    ] {
        reads(text, expected);
    }
}

#[test]
fn rfc_822_and_its_descendants() {
    for (text, expected) in [
        ("Fri, 25 Dec 2009 03:30:22 +0000", "2009-12-25T03:30:22Z"),
        ("Wed, 5 Nov 2025 13:52:10  EST", "2025-11-05T18:52:10Z"),
        ("31 Dec 99 23:59:59 +0000", "1999-12-31T23:59:59Z"),
        ("Thu, 09 Feb 06 23:59 GMT", "2006-02-09T23:59:00Z"),
        ("31 Dec 2002 14:20:20 A", "2002-12-31T15:20:20Z"),
        ("Mon, 26 January 2004 16:31:00 ET", "2004-01-26T21:31:00Z"),
        ("Mon, 21 Oct 2002 14:04:23 -05:00", "2002-10-21T19:04:23Z"),
        ("Sat,29 Jul 2006 00:03:02 GMT-01:01", "2006-07-29T01:04:02Z"),
        ("Thu (hm), 16(th) Feb(ruary) 2006()01:39 +0000 (a (b\\) c))", "2006-02-16T01:39:00Z"),
        ("Sunday, 06-Nov-94 08:49:37 GMT", "1994-11-06T08:49:37Z"),
        ("Thu, 01 Jan 0100 00:00:01 GMT", "0100-01-01T00:00:01Z"),
        ("1 Jan 120 00:00:01 GMT", "2020-01-01T00:00:01Z"),
    ] {
        reads(text, expected);
    }
}

#[test]
fn dates_written_out() {
    for (text, expected) in [
        ("Sun Nov  6 08:49:37 1994", "1994-11-06T08:49:37Z"),
        ("Sun Jul 15 01:16:00 +0200 2012", "2012-07-14T23:16:00Z"),
        ("Thu, June 22, 2023 at 01:11 PM EDT", "2023-06-22T17:11:00Z"),
        ("Friday, December 22, 2017 - 3:09pm", "2017-12-22T15:09:00Z"),
        ("Jan. 4, 2016, 12:37 a.m.", "2016-01-04T00:37:00Z"),
        ("mar., 01 d\u{e9}c. 2020 16:11:02 +0000", "2020-12-01T16:11:02Z"),
        ("Fri, 2006/09/15 08:19:53 EDT", "2006-09-15T12:19:53Z"),
        ("Mon, 03/30/2020 - 19:19", "2020-03-30T19:19:00Z"),
        ("30.10.23", "2023-10-30T00:00:00Z"),
        ("1520932969", "2018-03-13T09:22:49Z"),
        ("1520932969123", "2018-03-13T09:22:49.123Z"),
    ] {
        reads(text, expected);
    }
}

#[test]
fn dates_in_other_languages() {
    for text in [
        "Fr, 10. Januar 2020 14:33",
        "vendredi 10 janvier 2020 14:33",
        "viernes, 10 de enero de 2020 14:33",
        "venerd\u{ec} 10 gennaio 2020 14:33",
        "sexta-feira, 10 de janeiro de 2020 14:33",
        "vrijdag 10 januari 2020 14:33",
        "pi\u{105}tek, 10 stycznia 2020 14:33",
        "\u{41f}\u{442}, 10 \u{44f}\u{43d}\u{432}\u{430}\u{440}\u{44f} 2020 14:33",
        "10 Ocak 2020 Cuma 14:33",
        "2020\u{5e74}1\u{6708}10\u{65e5} 14:33",
        "2020\u{5e74}01\u{6708}10\u{65e5} \u{5348}\u{5f8c}2\u{6642}33\u{5206}",
        "2020\u{b144} 1\u{c6d4} 10\u{c77c} \u{c624}\u{d6c4} 2:33",
    ] {
        reads(text, "2020-01-10T14:33:00Z");
    }
    reads("2004-05-25 \u{c624}\u{d6c4} 11:23:17", "2004-05-25T23:23:17Z");
}

#[test]
fn what_is_no_date_or_has_two_readings() {
    for text in [
        "",
        "0",
        "-",
        "1.0",
        "013",
        "2013-xx-27",
        "0000-00-00 00:00:00",
        "2013-02-33",
        "2013-14-01",
        "03-12-31",
        "031231",
        "2004-05-25 \\uc624 11:23:17",
        "2013-01-28T",
        "2013-01-28T09:xx:00Z",
        "Sun, 16 Dec 2012 1:2:3:4 GMT",
        "Sun, 16 Dec 2012 11:47:32 +zz:00",
        "Sun, Dec x 2012 11:47:32 GMT",
        "3/4/2020",
        "Tue, 14 Jan 2020 10:00:00 XYZ",
        "Tue, 14 Jan 2020 10:00:00 America/New_York",
        "2020-01-14T10:00:00 Europe/Berlin",
        "2020-01-14 10:00 QQQ",
        "Nov. 2020",
        "2026-01-01T26:00:00Z",
        "2026-01-01T10:62:00Z",
        "ISO-8859-1",
        "http://example.com/2020/1/1",
    ] {
        assert_eq!(parse(text), None, "{text}");
    }
}

#[test]
fn a_header_holds_no_bare_number() {
    for text in ["0", "2020", "1520932969", "-1"] {
        assert_eq!(http_date(text), None, "{text}");
    }
    assert_eq!(http_date("Sun, 06 Nov 1994 08:49:37 GMT"), Some(Ts::from_ms(784_111_777_000)));
}

proptest! {
    #[test]
    fn never_panics(text in "\\PC{0,60}") {
        // Whatever was read can be written and read again.
        if let Some(at) = parse(&text) {
            prop_assert_eq!(parse(&at.to_string()), Some(at), "{}", text);
        }
    }

    #[test]
    fn never_panics_on_nearly_dates(text in "[-0-9+:/., TZJanFebGMTpm()]{0,40}") {
        // Whatever was read can be written and read again.
        if let Some(at) = parse(&text) {
            prop_assert_eq!(parse(&at.to_string()), Some(at), "{}", text);
        }
    }

    #[test]
    fn reads_what_it_writes(ms in -62_000_000_000_000_i64..253_000_000_000_000) {
        prop_assert_eq!(parse(&Ts::from_ms(ms).to_string()), Some(Ts::from_ms(ms)));
    }
}
