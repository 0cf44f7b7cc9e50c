//! What a hostile server does with a request, drawn from a number: the same number is the same trick.

use std::io::{Read as _, Write as _};
use std::sync::LazyLock;
use std::time::Duration;

/// One thing that a server does with a connection.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Send(Vec<u8>),
    /// One byte at a time.
    Drip(Vec<u8>),
    /// Again and again, as long as anybody listens.
    Endless(Vec<u8>),
    Silence,
    Reset,
}

/// The pause between two bytes of a drip.
pub(super) const DRIP: Duration = Duration::from_millis(20);

/// Families of tricks; the number of a case picks one after the other.
pub(super) const FAMILIES: [fn(&mut Dice, u16) -> Vec<Step>; 12] = [
    bomb,
    endless_head,
    lying_length,
    drip,
    silence,
    reset,
    bad_chunks,
    redirect_loop,
    private_target,
    garbage,
    endless_body,
    hostile_document,
];

/// Which family sends us to private places.
pub(super) const PRIVATE: usize = 8;

/// Small draws that follow from a number.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((mixed ^ (mixed >> 31)) % limit as u64).unwrap()
    }

    pub(super) fn pick<T: Clone>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())].clone()
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| u8::try_from(self.below(256)).unwrap()).collect()
    }
}

const FEED: &str = "<rss version=\"2.0\"><channel><title>t</title><item><link>http://a.test/1</link></item></channel></rss>";
const PLAIN: &str = "HTTP/1.1 200 OK\r\nContent-Type: application/rss+xml\r\n";

fn head(more: &str) -> Vec<u8> {
    format!("{PLAIN}{more}\r\n").into_bytes()
}

fn whole(headers: &str, body: &[u8]) -> Vec<Step> {
    let head = format!("{headers}Content-Length: {}\r\n\r\n", body.len());
    vec![Step::Send([head.as_bytes(), body].concat())]
}

/// Four megabytes of nothing, in every coding, and again within gzip.
static BOMBS: LazyLock<Vec<(&str, Vec<u8>)>> = LazyLock::new(|| {
    let zeros = vec![b' '; 4 << 20];
    let mut br = Vec::new();
    brotli::CompressorReader::new(&zeros[..], 4096, 1, 22).read_to_end(&mut br).unwrap();
    let gz = gzip(&zeros);
    let mut deflate = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    deflate.write_all(&zeros).unwrap();
    vec![
        ("gzip, gzip", gzip(&gz)),
        ("gzip", gz),
        ("br", br),
        ("zstd", zstd::bulk::compress(&zeros, 3).unwrap()),
        ("deflate", deflate.finish().unwrap()),
    ]
});

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gz.write_all(bytes).unwrap();
    gz.finish().unwrap()
}

fn bomb(dice: &mut Dice, _: u16) -> Vec<Step> {
    let (coding, mut body) = dice.pick(&BOMBS);
    match dice.below(4) {
        // Cut short, or spoilt in the middle.
        0 => body.truncate(dice.below(body.len())),
        1 => {
            let at = dice.below(body.len());
            body[at] ^= 0x55;
        }
        _ => {}
    }
    whole(&format!("{PLAIN}Content-Encoding: {coding}\r\n"), &body)
}

fn endless_head(dice: &mut Dice, _: u16) -> Vec<Step> {
    let start = Step::Send(PLAIN.into());
    match dice.below(5) {
        0 => vec![start, Step::Endless(b"X-Filler: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n".into())],
        1 => vec![Step::Send(format!("{PLAIN}X-Long: ").into()), Step::Endless(vec![b'a'; 4096])],
        2 => vec![Step::Endless(b"HTTP/1.1 100 Continue\r\n\r\n".into())],
        3 => {
            let lines: String = (0..dice.below(400)).map(|n| format!("X-{n}: {n}\r\n")).collect();
            whole(&format!("{PLAIN}{lines}"), FEED.as_bytes())
        }
        _ => {
            let long = "a".repeat(dice.below(200_000));
            whole(&format!("{PLAIN}Set-Cookie: {long}\r\n"), FEED.as_bytes())
        }
    }
}

fn lying_length(dice: &mut Dice, _: u16) -> Vec<Step> {
    let right = FEED.len();
    let lengths = [
        format!("Content-Length: {}\r\n", right + dice.below(1000)),
        format!("Content-Length: {}\r\n", dice.below(right)),
        "Content-Length: 0\r\n".to_owned(),
        "Content-Length: 18446744073709551615\r\n".to_owned(),
        "Content-Length: 99999999999999999999999\r\n".to_owned(),
        "Content-Length: -1\r\n".to_owned(),
        "Content-Length: +10\r\n".to_owned(),
        "Content-Length: 0x10\r\n".to_owned(),
        "Content-Length: 5, 7\r\n".to_owned(),
        "Content-Length: 5\r\nContent-Length: 7\r\n".to_owned(),
        format!("Transfer-Encoding: chunked\r\nContent-Length: {right}\r\n"),
        "Content-Range: bytes 0-5/999999999999\r\n".to_owned(),
    ];
    let mut steps = vec![Step::Send([head(&dice.pick(&lengths)), FEED.into()].concat())];
    if dice.below(2) == 0 {
        steps.push(Step::Silence);
    }
    steps
}

fn drip(dice: &mut Dice, _: u16) -> Vec<Step> {
    let all = [head("Content-Length: 1000000\r\n"), vec![b'x'; 1000]].concat();
    let at = dice.below(200);
    vec![Step::Send(all[..at].to_vec()), Step::Drip(all[at..].to_vec())]
}

fn silence(dice: &mut Dice, _: u16) -> Vec<Step> {
    let all = [head("Content-Length: 5000\r\n"), vec![b'x'; 1000]].concat();
    vec![Step::Send(all[..dice.below(all.len())].to_vec()), Step::Silence]
}

fn reset(dice: &mut Dice, _: u16) -> Vec<Step> {
    let all = [head("Content-Length: 5000\r\n"), vec![b'x'; 1000]].concat();
    vec![Step::Send(all[..dice.below(all.len())].to_vec()), Step::Reset]
}

fn bad_chunks(dice: &mut Dice, _: u16) -> Vec<Step> {
    let head = head("Transfer-Encoding: chunked\r\n");
    let bodies: [&[u8]; 10] = [
        b"zz\r\nhello\r\n0\r\n\r\n",
        b"-5\r\nhello\r\n0\r\n\r\n",
        b"FFFFFFFFFFFFFFFFF\r\nhello\r\n",
        b"FFFFFFFFFFFFFFFF\r\nhello\r\n",
        b"5\r\nhello0\r\n\r\n",
        b"5\nhello\n0\n\n",
        b"5;ext=\"\r\n\"\r\nhello\r\n0\r\n\r\n",
        b"5\r\nhello\r\n",
        b"5\r\nhello\r\n0\r\nTransfer-Encoding: gzip\r\n",
        b"\r\n\r\n\r\n",
    ];
    match dice.below(13) {
        at @ 0..10 => vec![Step::Send([&head, bodies[at]].concat())],
        10 => vec![Step::Send([&head, &b"5;"[..]].concat()), Step::Endless(vec![b'e'; 4096])],
        11 => {
            let trailers = b"1\r\na\r\n0\r\n";
            vec![Step::Send([&head, &trailers[..]].concat()), Step::Endless(b"X: y\r\n".into())]
        }
        _ => vec![Step::Send(head), Step::Send(dice.bytes(500)), Step::Silence],
    }
}

fn redirect(to: &[u8], status: u16) -> Vec<Step> {
    let start = format!("HTTP/1.1 {status} Elsewhere\r\nContent-Length: 0\r\nLocation: ");
    vec![Step::Send([start.as_bytes(), to, b"\r\n\r\n"].concat())]
}

fn redirect_loop(dice: &mut Dice, _: u16) -> Vec<Step> {
    let status = dice.pick(&[301, 302, 303, 307, 308]);
    match dice.below(7) {
        0 => redirect(b"", status),
        1 => redirect(b"?", status),
        2 => redirect(format!("?{}", dice.below(1_000_000)).as_bytes(), status),
        3 => redirect(format!("/{}/", "deeper/".repeat(dice.below(5000))).as_bytes(), status),
        4 => redirect(&dice.bytes(20).into_iter().map(|b| b | 0x80).collect::<Vec<_>>(), status),
        5 => redirect("größe/☃".as_bytes(), status),
        _ => redirect(b"http://:::/", status),
    }
}

/// This machine and its like, in many spellings; `PORT` is where a trap listens.
pub(super) const SPELLINGS: [&str; 44] = [
    "http://127.0.0.1:PORT/",
    "http://127.1:PORT/",
    "http://127.0.1:PORT/",
    "http://127.0.0.1.:PORT/",
    "http://127.255.255.254:PORT/",
    "http://0x7f000001:PORT/",
    "http://0x7f.0.0.1:PORT/",
    "http://0X7F.1:PORT/",
    "http://2130706433:PORT/",
    "http://0177.0.0.1:PORT/",
    "http://017700000001:PORT/",
    "http://127.0.0.0x1:PORT/",
    "http://127%2e0%2e0%2e1:PORT/",
    "http://%31%32%37.0.0.1:PORT/",
    "http://127。0。0。1:PORT/",
    "http://①②⑦.0.0.1:PORT/",
    "http://１２７.0.0.1:PORT/",
    "http://0:PORT/",
    "http://0.0.0.0:PORT/",
    "http://localhost:PORT/",
    "http://LOCALHOST.:PORT/",
    "http://news.localhost:PORT/",
    "http://[::1]:PORT/",
    "http://[::]:PORT/",
    "http://[0:0:0:0:0:0:0:1]:PORT/",
    "http://[::127.0.0.1]:PORT/",
    "http://[::ffff:127.0.0.1]:PORT/",
    "http://[::ffff:7f00:1]:PORT/",
    "http://[64:ff9b::127.0.0.1]:PORT/",
    "http://[2002:7f00:1::]:PORT/",
    "http://[fe80::1]:PORT/",
    "http://[fd00:ec2::254]/latest/meta-data/",
    "http://169.254.169.254/latest/meta-data/",
    "http://0xa9fea9fe/latest/meta-data/",
    "http://100.100.100.200/",
    "http://10.0.0.1/",
    "http://172.16.0.1/",
    "http://192.168.0.1/",
    "http://me:pw@127.0.0.1:PORT/",
    "http://example.com@127.0.0.1:PORT/",
    "http:\\\\127.0.0.1:PORT\\",
    "//127.0.0.1:PORT/",
    "\thttp://127.0.0.1:PORT/ ",
    "https://127.0.0.1:PORT/",
];

fn private_target(dice: &mut Dice, trap: u16) -> Vec<Step> {
    let target = dice.pick(&SPELLINGS).replace("PORT", &trap.to_string());
    redirect(target.as_bytes(), dice.pick(&[301, 302, 303, 307, 308]))
}

fn garbage(dice: &mut Dice, _: u16) -> Vec<Step> {
    let heads: [&[u8]; 10] = [
        b"",
        b"\r\n\r\n\r\n",
        b"hello\r\n\r\n",
        b"HTTP/9.9 200 OK\r\n\r\n",
        b"HTTP/1.1 99999 OK\r\n\r\n",
        b"HTTP/1.1 000 \r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: a\0b\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: a\r\n folded\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n",
    ];
    match dice.below(13) {
        at @ 0..10 => vec![Step::Send(heads[at].to_vec())],
        10 => {
            let length = dice.below(2000);
            vec![Step::Send(dice.bytes(length))]
        }
        // The other protocol, unasked.
        11 => vec![Step::Send(b"\0\0\x12\x04\0\0\0\0\0".to_vec()), Step::Endless(vec![0; 4096])],
        _ => {
            let value = dice.bytes(40).into_iter().map(|b| b | 0x80);
            let etag = [&b"ETag: \""[..], &value.collect::<Vec<_>>(), b"\"\r\n"].concat();
            let end = format!("Content-Length: {}\r\n\r\n{FEED}", FEED.len());
            vec![Step::Send([PLAIN.as_bytes(), &etag, end.as_bytes()].concat())]
        }
    }
}

fn endless_body(dice: &mut Dice, _: u16) -> Vec<Step> {
    match dice.below(4) {
        0 => vec![Step::Send(head("")), Step::Endless(vec![b'x'; 16 << 10])],
        1 => {
            let chunk = [&b"4000\r\n"[..], &vec![b'x'; 0x4000], b"\r\n"].concat();
            vec![Step::Send(head("Transfer-Encoding: chunked\r\n")), Step::Endless(chunk)]
        }
        2 => {
            let chunk = b"1\r\nx\r\n".repeat(500);
            vec![Step::Send(head("Transfer-Encoding: chunked\r\n")), Step::Endless(chunk)]
        }
        _ => {
            let members = gzip(&vec![b' '; 1 << 20]);
            vec![Step::Send(head("Content-Encoding: gzip\r\n")), Step::Endless(members)]
        }
    }
}

fn hostile_document(dice: &mut Dice, _: u16) -> Vec<Step> {
    let depth = 1000 + dice.below(20_000);
    let laughs: String = (1..20)
        .map(|n| format!("<!ENTITY l{n} \"{}\">", format!("&l{};", n - 1).repeat(10)))
        .collect();
    let documents = [
        format!("<!DOCTYPE x [<!ENTITY l0 \"ha\">{laughs}]><rss><channel><title>&l19;</title></channel></rss>"),
        "<!DOCTYPE x [<!ENTITY f SYSTEM \"file:///etc/passwd\">]><rss><channel><title>&f;</title></channel></rss>".to_owned(),
        format!("<rss><channel>{}", "<item>".repeat(depth)),
        format!("<html><body>{}", "<div>".repeat(depth)),
        format!("<html><body>{}", "<b><table><tr><td>".repeat(depth / 8)),
        format!("<urlset>{}", "<url><loc>http://a.test/</loc></url>".repeat(depth / 8)),
        format!("{}1{}", "[".repeat(depth), "]".repeat(depth)),
        format!("<a {}>", "x=\"y\" ".repeat(depth)),
        "<!--".repeat(depth),
        "&#x0;&#xD800;&#x110000;".repeat(depth / 8),
    ];
    let kinds =
        ["application/rss+xml", "text/html", "text/html; charset=utf-7", "application/feed+json"];
    let kind = dice.pick(&kinds);
    whole(&format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n"), dice.pick(&documents).as_bytes())
}
