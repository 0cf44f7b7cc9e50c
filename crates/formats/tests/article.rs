//! What holds for any page, however it is made: the promises that `fuzz/targets.rs` checks for
//! `article`, on markup that a generator puts together from whole sentences and from traps.

#[path = "../../../fuzz/targets.rs"]
mod targets;

use proptest::prelude::*;

/// Pieces of pages; every script, style, handler and address in them is a trap.
const PIECES: &[&str] = &[
    "<div class=article-body>",
    "<div onclick=alert(1) style='x:expression(1)'>",
    "</div>",
    "<p>",
    "<p onmouseover='alert(1)'>",
    "</p>",
    "<article>",
    "</article>",
    "<h1>",
    "</h1>",
    "<h2>Why it matters</h2>",
    "<ul><li>",
    "<li>",
    "<ol>",
    "</ul>",
    "<table><tr><td>",
    "<td>",
    "<tr>",
    "</table>",
    "<blockquote>",
    "</blockquote>",
    "<pre>",
    "```",
    "</pre>",
    "<code>",
    "a_b `c` ",
    "</code>",
    "<a href=/x>",
    "<a href='javascript:alert(1)'>",
    "<a href=' JaVa\tScRiPt:alert(1)'>",
    "<a href='data:text/html,<script>alert(1)</script>'>",
    "<a href='vbscript:x'>",
    "<a href='https://example.com/a) [b](javascript:alert(1)'>",
    "<a href='//other.example/\"><script>'>",
    "</a>",
    "<img src=/i.jpg alt='](javascript:alert(1)) <script>' onerror=alert(1)>",
    "<img src='javascript:alert(1)'>",
    "<script>alert('script')</script>",
    "<script>",
    "</script>",
    "<style>p{color:red}</style>",
    "<svg onload=alert(1)><script>alert(1)</script></svg>",
    "<math><mtext><style><img src=x onerror=alert(1)>",
    "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
    "<noscript><p title='</noscript><img src=x onerror=alert(1)>'>",
    "<template><p>hidden</p></template>",
    "<form action='javascript:alert(1)'><input type=password>",
    "<base href='javascript:alert(1)'>",
    "<!--",
    "-->",
    "<![CDATA[",
    "]]>",
    "&lt;script&gt;alert(1)&lt;/script&gt; ",
    "&lt;img src=x onerror=alert(1)&gt; ",
    "&nGt;&#0;&#x1f600;",
    "&lt;javascript:alert(1)&gt; [x](javascript:alert(1)) ",
    "[x]: javascript:alert(1)\n",
    "<br><br>",
    "<b>",
    "</b>",
    "<em> ",
    "\u{a0}",
    "\u{202e}",
    "The harbour was closed on Tuesday after a storm tore two ships from their moorings. ",
    "Nobody was hurt, but a crane fell into the basin, and divers will need a week to clear it. ",
    "昨日の嵐で港が閉鎖され、二隻の貨物船が係留から外れたと港湾当局が発表した。",
    "أُغلق الميناء يوم الثلاثاء بعد عاصفة مزقت حبال سفينتين، بحسب ما قالته السلطات. ",
    "# no heading * no star _ no em 1. no item > no quote ",
    "By Jane Doe, 12 May 2026",
    "<script type=application/ld+json>{\"@type\":\"Article\",\"headline\":\"A <b>head</b>\",\
     \"image\":\"javascript:alert(1)\",\"articleBody\":\"<script>alert(1)<\\/script>\"}</script>",
    "<meta property=og:image content='javascript:alert(1)'>",
    "<link rel=canonical href='javascript:alert(1)'>",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn whatever_the_markup_the_article_is_harmless(
        pieces in prop::collection::vec(prop::sample::select(PIECES), 0..60)
    ) {
        // Pages under 200 characters are not looked at.
        let page = format!("<body>{}{}", pieces.concat(), " ".repeat(200));
        targets::run("article", page.as_bytes());
    }

    #[test]
    fn any_text_at_all_ends_well(text in "\\PC{0,400}") {
        targets::run("article", format!("{text}{}", " ".repeat(200)).as_bytes());
    }
}
