//! What was gathered, as feeds that others read.

use feedmill_formats::feed;

use super::{Answer, Server, worlds};

fn read(answer: &Answer) -> feed::Feed {
    let kind = answer.header("content-type");
    feed::parse(&answer.body, kind, "http://x.example/", &feed::Limits::default()).unwrap()
}

fn link(answer: &Answer, rel: &str) -> Option<String> {
    let links = answer.header("link").unwrap();
    let one = links.split(", ").find(|link| link.ends_with(&format!("rel=\"{rel}\"")))?;
    Some(one.split(['<', '>']).nth(1).unwrap().to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn all_articles_are_in_the_pages_of_every_feed() {
    for (world, _database) in worlds(3, 4).await {
        let server = Server::start(&world, |config| {
            config.api.hub = "https://hub.example/".to_owned();
        })
        .await;
        let listed = server.json("/api/v1/articles?limit=1000").await;
        let urls: Vec<String> = listed["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| item["url"].as_str().unwrap().to_owned())
            .collect();
        for name in ["atom", "rss", "json"] {
            let (mut found, mut pages) = (Vec::new(), Vec::new());
            let mut next = Some(format!("/articles.{name}?limit=5"));
            while let Some(path) = next {
                let answer = server.get(&path).await;
                assert_eq!(answer.status, 200, "{path}: {}", answer.text());
                let read = read(&answer);
                found.extend(read.entries.iter().map(|entry| entry.link.clone().unwrap()));
                assert_eq!(link(&answer, "hub").as_deref(), Some("https://hub.example/"));
                assert!(link(&answer, "self").unwrap().ends_with(&path), "{path}");
                let base = format!("http://{}", server.address);
                next = link(&answer, "next").map(|url| url.strip_prefix(&base).unwrap().to_owned());
                pages.push((path, answer));
            }
            assert_eq!(found, urls, "{name}");
            // The way back leads over the same articles.
            let (_, last) = pages.last().unwrap();
            let back = link(last, "previous").unwrap();
            let back =
                server.get(back.strip_prefix(&format!("http://{}", server.address)).unwrap()).await;
            let before = &pages[pages.len() - 2].1;
            let titles = |answer: &Answer| {
                let read = read(answer);
                read.entries.iter().map(|entry| entry.link.clone()).collect::<Vec<_>>()
            };
            assert_eq!(titles(&back), titles(before), "{name}");
            // Nothing is sent twice.
            let (path, answer) = &pages[0];
            let tag = answer.header("etag").unwrap();
            let again = server.ask("GET", path, &[("if-none-match", tag)], "").await;
            assert_eq!((again.status, again.body.len()), (304, 0), "{name}");
            let modified = answer.header("last-modified").unwrap();
            let again = server.ask("GET", path, &[("if-modified-since", modified)], "").await;
            assert_eq!(again.status, 304, "{name}: {modified}");
            let old = "Mon, 01 Jan 2001 00:00:00 GMT";
            assert_eq!(
                server.ask("GET", path, &[("if-modified-since", old)], "").await.status,
                200
            );
        }
        server.stop().await;
    }
}
