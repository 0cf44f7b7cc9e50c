//! Articles as a whole: every page of the newsroom is read word for word as it was written.

use std::sync::Arc;

use feedmill_formats::article::{self, Evidence};
use feedmill_newsroom::{Newsroom, Setup};

const START: i64 = 1_772_452_800_000;

#[tokio::test]
async fn every_house_style_is_read_word_for_word() {
    let setup = Setup { publishers: 20, seed: 3, history: 8, ..Setup::new(Arc::new(|| START)) };
    let newsroom = Newsroom::start(setup).await.unwrap();
    let stories = newsroom.published(START);
    assert!(stories.len() >= 160, "{}", stories.len());
    for story in stories {
        let page = newsroom.page(&story.url).unwrap();
        let read = article::extract(&page, &story.url, &Evidence::default()).unwrap();
        assert_eq!(read.text, story.text, "{}", story.url);
        assert_eq!(read.title, story.title, "{}", story.url);
        assert_eq!(read.authors, story.authors, "{}", story.url);
        assert!(read.published.is_some() && read.day.is_some(), "{}", story.url);
        assert_eq!(read.language.as_deref(), Some(story.language.code()), "{}", story.url);
    }
    newsroom.stop().await;
}
