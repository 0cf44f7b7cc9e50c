//! The dashboard in a real browser, on an engine that follows the newsroom. What is seen is held against
//! the API, the store and what the newsroom was asked.

mod access;
mod chromium;
mod deeds;
mod driver;
mod hostile;
mod keys;
mod views;

use std::sync::Arc;

use feedmill::app::{self, Mode, RunOptions};
use feedmill::config::Config;
use feedmill::model::Lane;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::api::Server;
use crate::archive::service;
use crate::support::World;
use chromium::Browser;

/// A newsroom, an engine at work, its server, and somebody who looks at it.
struct Room {
    browser: Browser,
    server: Server,
    world: World,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Room {
    /// Nothing when there is to be no browser.
    fn wanted() -> bool {
        service("FEEDMILL_TEST_CHROMEDRIVER", "the program chromedriver").is_some()
    }

    async fn open(world: World) -> Self {
        let room = Self::shaped(world, |_| {}).await;
        // As somebody who opens the link on the terminal.
        room.browser.open(&format!("/#token={}", room.server.login)).await;
        room.browser.reads_in("#who", "login link · admin").await;
        room
    }

    async fn shaped(world: World, shape: impl FnOnce(&mut Config)) -> Self {
        let server = Server::start(&world, shape).await;
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let (config, clock, told) = (world.config.clone(), world.clock.clone(), stop.clone());
        tasks.spawn(async move {
            let options = RunOptions { mode: Mode::Forever, lanes: Lane::ALL.to_vec() };
            app::run(&config, &clock, options, told, Arc::default()).await.unwrap();
        });
        let browser = Browser::start(&format!("http://{}", server.address)).await.unwrap();
        Self { browser, server, world, stop, tasks }
    }

    /// Nothing went wrong that only the browser knows of, and it asked nobody but us.
    async fn is_clean(&self) {
        let at = self.browser.at().await;
        assert_eq!(self.browser.alert().await, None, "{at}");
        assert_eq!(self.browser.log().await, Vec::<String>::new(), "{at}");
        assert_eq!(self.browser.foreign().await, Vec::<String>::new(), "{at}");
    }

    async fn close(self) {
        self.is_clean().await;
        drop(self.browser);
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        self.server.stop().await;
    }
}
