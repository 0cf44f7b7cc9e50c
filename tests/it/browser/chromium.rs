//! A headless Chromium, driven through `WebDriver`. It is a browser as people have it: nothing here reaches
//! into a page but to look, and whatever is done is done by clicks and keys.
//!
//! It waits for what can be seen, never for a time, and leaves no process behind.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::driver::{Driver, Said};
use crate::support::LIMIT;

/// How often something is looked for.
const LOOK: Duration = Duration::from_millis(50);

/// No name but ours is known to it, and nothing is asked for that the page does not ask for.
const FLAGS: &[&str] = &[
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--disable-features=Translate,OptimizationHints,MediaRouter",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--remote-debugging-pipe",
    "--lang=en-GB",
    "--hide-scrollbars",
    "--window-size=1280,900",
];

/// Where a picture is taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    pub(super) name: &'static str,
    pub(super) width: u32,
    pub(super) dark: bool,
}

pub(super) const LOOKS: [Look; 3] = [
    Look { name: "light", width: 1280, dark: false },
    Look { name: "dark", width: 1280, dark: true },
    Look { name: "phone", width: 390, dark: false },
];

pub(super) struct Browser {
    driver: Driver,
    /// `http://127.0.0.1:PORT`
    home: String,
    _profile: TempDir,
}

/// An element, by a CSS selector or a path.
#[derive(Clone, Copy, Debug)]
enum Place<'a> {
    Css(&'a str),
    Path(&'a str),
}

/// What is done with one.
#[derive(Clone, Copy, Debug)]
enum Deed<'a> {
    Click,
    Fill(&'a str),
}

impl Browser {
    /// A browser of its own at this server; nothing when there is to be none.
    pub(super) async fn start(home: &str) -> Option<Self> {
        let profile = tempfile::tempdir().unwrap();
        let mut flags: Vec<String> = FLAGS.iter().map(ToString::to_string).collect();
        flags.push(format!("--user-data-dir={}", profile.path().display()));
        let wanted = json!({
            "goog:chromeOptions": {"args": flags},
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
            "unhandledPromptBehavior": "ignore",
        });
        let driver = Driver::start(&wanted).await?;
        Some(Self { driver, home: home.to_owned(), _profile: profile })
    }

    /// Goes to a page of our server.
    pub(super) async fn open(&self, path: &str) {
        let url = format!("{}{path}", self.home);
        self.driver.post("url", json!({"url": url})).await.unwrap();
        self.settled().await;
    }

    /// Where it is, without the server.
    pub(super) async fn at(&self) -> String {
        let url = self.driver.get("url").await.unwrap();
        let url = url.as_str().unwrap();
        url.strip_prefix(&self.home).unwrap_or(url).to_owned()
    }

    /// What a script says.
    pub(super) async fn ask(&self, script: &str) -> Value {
        let body = json!({"script": format!("return ({script})"), "args": []});
        self.driver
            .post("execute/sync", body)
            .await
            .unwrap_or_else(|error| panic!("{script}: {error}"))
    }

    /// Waits until a script says yes.
    pub(super) async fn until(&self, what: &str, script: &str) {
        let began = Instant::now();
        while self.ask(script).await != json!(true) {
            if began.elapsed() > LIMIT {
                let text = self.ask("document.body.innerText").await;
                panic!(
                    "never seen: {what}, at {}:\n{text}\n{:?}",
                    self.at().await,
                    self.log().await
                );
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Waits until the view has what it waits for.
    pub(super) async fn settled(&self) {
        let script =
            "document.readyState === 'complete' && document.querySelector('main > .view') !== null
            && document.querySelector('main [aria-busy], main .skeleton, main .wait') === null";
        self.until("a view that is ready", script).await;
    }

    /// Waits until these words can be read on the page, an open dialog and what is told in passing
    /// included.
    pub(super) async fn reads(&self, words: &str) {
        let script = format!("document.body.innerText.includes({})", json!(words));
        self.until(words, &script).await;
    }

    /// Waits until this can be read within an element.
    pub(super) async fn reads_in(&self, css: &str, words: &str) {
        let (css, text) = (json!(css), json!(words));
        let script = format!(
            "[...document.querySelectorAll({css})].some((one) => one.innerText.includes({text}))"
        );
        self.until(words, &script).await;
    }

    pub(super) async fn count(&self, css: &str) -> u64 {
        let script = format!("document.querySelectorAll({}).length", json!(css));
        self.ask(&script).await.as_u64().unwrap()
    }

    /// Does something with an element as soon as it can be done: views are drawn anew.
    async fn act(&self, place: Place<'_>, deed: Deed<'_>) {
        let began = Instant::now();
        while let Err(error) = self.try_to(place, deed).await {
            if began.elapsed() > LIMIT {
                let text = self.ask("document.body.innerText").await;
                panic!("{place:?}, {deed:?} at {}: {error}\n{text}", self.at().await);
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn try_to(&self, place: Place<'_>, deed: Deed<'_>) -> Said {
        let (using, value) = match place {
            Place::Css(css) => ("css selector", css),
            Place::Path(path) => ("xpath", path),
        };
        let found = self.driver.post("element", json!({"using": using, "value": value})).await?;
        let element = element(&found)?;
        match deed {
            Deed::Click => self.driver.post(&format!("element/{element}/click"), json!({})).await,
            Deed::Fill(text) => {
                self.driver.post(&format!("element/{element}/clear"), json!({})).await?;
                self.driver.post(&format!("element/{element}/value"), json!({"text": text})).await
            }
        }
    }

    pub(super) async fn click(&self, css: &str) {
        self.act(Place::Css(css), Deed::Click).await;
    }

    /// Presses the button, or follows the link, with this label: in a dialog when one is open.
    pub(super) async fn press(&self, label: &str) {
        let within = if self.count("dialog[open]").await > 0 { "//dialog" } else { "//main" };
        let own = format!("normalize-space(.)='{label}'");
        let path = format!("{within}//button[{own}] | {within}//a[{own}]");
        self.act(Place::Path(&path), Deed::Click).await;
    }

    /// Presses the button with this label in the table's row that has these words.
    pub(super) async fn press_in_row(&self, words: &str, label: &str) {
        let path = format!("//tr[contains(., '{words}')]//button[normalize-space(.)='{label}']");
        self.act(Place::Path(&path), Deed::Click).await;
    }

    /// Writes into a field, in place of what was there.
    pub(super) async fn fill(&self, css: &str, text: &str) {
        self.act(Place::Css(css), Deed::Fill(text)).await;
    }

    pub(super) async fn choose(&self, css: &str, value: &str) {
        self.act(Place::Css(&format!("{css} option[value='{value}']")), Deed::Click).await;
    }

    /// Types where the focus is.
    pub(super) async fn type_keys(&self, keys: &str) {
        let strokes: Vec<Value> = keys
            .chars()
            .flat_map(|key| ["keyDown", "keyUp"].map(|way| json!({"type": way, "value": key})))
            .collect();
        let body = json!({"actions": [{"type": "key", "id": "keys", "actions": strokes}]});
        self.driver.post("actions", body).await.unwrap();
    }

    /// What the element is that has the focus.
    pub(super) async fn focus(&self) -> String {
        let script = "[document.activeElement.tagName, document.activeElement.id || document.activeElement.name \
            || document.activeElement.innerText?.split(/[\\n\\t]/)[0] || ''].join(' ').trim()";
        self.ask(script).await.as_str().unwrap().to_owned()
    }

    /// The words of a dialog that a script opened, if any did.
    pub(super) async fn alert(&self) -> Option<String> {
        self.driver.get("alert/text").await.ok().map(|text| text.to_string())
    }

    async fn cdp(&self, command: &str, parameters: Value) -> Value {
        let body = json!({"cmd": command, "params": parameters});
        self.driver.post("goog/cdp/execute", body).await.unwrap()
    }

    async fn logged(&self, kind: &str) -> Vec<Value> {
        let told = self.driver.post("se/log", json!({"type": kind})).await.unwrap();
        told.as_array().cloned().unwrap_or_default()
    }

    /// What the console said since it was asked last: errors, and what the policy of the page forbade.
    pub(super) async fn log(&self) -> Vec<String> {
        let lines = self.logged("browser").await;
        lines.iter().map(|line| format!("{} {}", line["level"], line["message"])).collect()
    }

    /// Addresses of others that pages asked for since it was asked last.
    pub(super) async fn foreign(&self) -> Vec<String> {
        let asked = self.logged("performance").await.into_iter().filter_map(|line| {
            let entry: Value = serde_json::from_str(line["message"].as_str()?).ok()?;
            let sent = entry["message"]["method"] == "Network.requestWillBeSent";
            let url = entry["message"]["params"]["request"]["url"].as_str()?;
            sent.then(|| url.to_owned())
        });
        let ours = |url: &str| {
            let page = url.strip_prefix("blob:").unwrap_or(url);
            page.starts_with(&format!("{}/", self.home))
                || page.starts_with("data:")
                || page.starts_with("chrome:")
        };
        asked.filter(|url| !ours(url)).collect()
    }

    /// Shows pages like that from now on.
    pub(super) async fn look(&self, look: Look) {
        let scheme = if look.dark { "dark" } else { "light" };
        let features = json!([
            {"name": "prefers-color-scheme", "value": scheme},
            // A picture must not catch colours on their way.
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]);
        self.cdp("Emulation.setEmulatedMedia", json!({"features": features})).await;
        let narrow = look.width < 600;
        let size =
            json!({"width": look.width, "height": 900, "deviceScaleFactor": 1, "mobile": narrow});
        self.cdp("Emulation.setDeviceMetricsOverride", size).await;
    }

    /// Keeps a picture of the whole page where `FEEDMILL_TEST_SCREENSHOTS` says.
    pub(super) async fn picture(&self, name: &str) {
        let Ok(dir) = std::env::var("FEEDMILL_TEST_SCREENSHOTS") else { return };
        let whole = json!({"format": "png", "captureBeyondViewport": true});
        let told = self.cdp("Page.captureScreenshot", whole).await;
        let bytes = base64::Engine::decode(
            &base64::engine::general_purpose::STANDARD,
            told["data"].as_str().unwrap(),
        );
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(PathBuf::from(dir).join(format!("{name}.png")), bytes.unwrap()).unwrap();
    }
}

/// The id of an element, as the driver tells it.
fn element(found: &Value) -> Result<&str, String> {
    let ids = found.as_object().and_then(|found| found.values().next());
    ids.and_then(Value::as_str).ok_or_else(|| format!("no element: {found}"))
}
