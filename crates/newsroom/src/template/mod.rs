//! Article pages in five house styles. The visible body always equals the truth; everything else
//! on the page is furniture that an extractor has to leave out. A page depends on its story alone,
//! never on the time of the request, so its validators can be derived from the story.

mod blog;
mod microdata;
mod parts;
mod sections;
mod semantic;
mod soup;

use crate::prose::{Block, Labels};
use crate::publisher::{Publisher, Template};
use crate::rng::{Purpose, Rng};
use crate::world::{Outline, World};

pub(crate) use parts::{frame, story_list};

/// A link with its text.
pub(crate) struct Link {
    pub(crate) href: String,
    pub(crate) text: String,
}

/// All that a template needs to know.
pub(crate) struct Page<'a> {
    pub(crate) site: &'a Publisher,
    pub(crate) labels: &'static Labels,
    pub(crate) story: Outline,
    pub(crate) blocks: Vec<Block>,
    pub(crate) related: Vec<Link>,
    seed: u64,
}

/// The page of a story.
pub(crate) fn article(world: &World, site: &Publisher, story: Outline) -> String {
    let earlier = (site.oldest..story.number).rev().take(4);
    let related = earlier.map(|number| link_to(site, &world.outline(site, number))).collect();
    let page = Page {
        site,
        labels: &site.language.words().labels,
        blocks: world.body(site, &story),
        story,
        related,
        seed: world.seed,
    };
    match site.template {
        Template::Semantic => semantic::render(&page),
        Template::Blog => blog::render(&page),
        Template::Soup => soup::render(&page),
        Template::Microdata => microdata::render(&page),
        Template::Sections => sections::render(&page),
    }
}

pub(crate) fn link_to(site: &Publisher, story: &Outline) -> Link {
    Link { href: site.url(&story.path), text: story.title.clone() }
}

impl Page<'_> {
    /// Draws for the inline markup of this page.
    fn rng(&self) -> Rng {
        Rng::of(Purpose::Page, &[self.seed, self.site.index as u64, self.story.number as u64, 1])
    }

    fn url(&self) -> String {
        self.site.url(&self.story.path)
    }
}
