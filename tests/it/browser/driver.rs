//! The program that drives a browser, on a port of its own: `WebDriver`, as far as it is used here.
//!
//! A driver that is dropped closes its browser first, also when a test fails. When the test itself is
//! killed, the browser ends with the pipe that it is driven through.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::archive::service;
use crate::support::LIMIT;

/// The program on a free port, unless it ended at once.
fn listening(program: &str) -> Option<(Child, u16)> {
    let mut child = Command::new(program)
        .args(["--port=0", "--log-level=SEVERE"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("chromedriver starts");
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
    // ChromeDriver was started successfully on port 40123.
    let port = said.by_ref().map_while(Result::ok).find_map(|line| {
        line.split_once("successfully on port ")?.1.trim_end_matches('.').parse().ok()
    });
    // What it says later goes nowhere, and must not be in its way.
    std::thread::spawn(move || said.for_each(drop));
    if port.is_none() {
        child.wait().expect("it ended");
    }
    Some((child, port?))
}

/// What the driver says, or why it does not.
pub(super) type Said = Result<Value, String>;

pub(super) struct Driver {
    child: Child,
    port: u16,
    /// `/session/ID` once there is one.
    session: String,
}

impl Driver {
    /// A browser with these capabilities; nothing when `FEEDMILL_TEST_CHROMEDRIVER` is `off`.
    pub(super) async fn start(wanted: &Value) -> Option<Self> {
        let program = service("FEEDMILL_TEST_CHROMEDRIVER", "the program chromedriver")?;
        // It takes one port of two families, and ends when somebody else has it in one of them.
        let (child, port) =
            (0..5).find_map(|_| listening(&program)).expect("chromedriver names its port");
        let mut driver = Self { child, port, session: String::new() };
        let asked = json!({"capabilities": {"alwaysMatch": wanted}});
        let made = driver.ask("POST", "/session", Some(&asked)).await.expect("Chromium starts");
        driver.session = format!("/session/{}", made["sessionId"].as_str().unwrap());
        Some(driver)
    }

    pub(super) async fn get(&self, what: &str) -> Said {
        self.ask("GET", &format!("{}/{what}", self.session), None).await
    }

    pub(super) async fn post(&self, what: &str, body: Value) -> Said {
        self.ask("POST", &format!("{}/{what}", self.session), Some(&body)).await
    }

    async fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Said {
        let exchange = async {
            let request = request(self.port, method, path, body);
            let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", self.port)).await?;
            stream.write_all(request.as_bytes()).await?;
            // It leaves the connection open, whatever it is asked.
            let mut answer = Vec::new();
            while missing(&answer) > 0 && stream.read_buf(&mut answer).await? > 0 {}
            Ok::<_, std::io::Error>(answer)
        };
        let answer = tokio::time::timeout(LIMIT, exchange).await;
        let answer = answer.map_err(|_| format!("no answer to {path}"))?;
        read(&answer.map_err(|error| error.to_string())?)
    }

    /// Lets it close its browser, and waits for that.
    fn close(&self) -> std::io::Result<()> {
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        stream.write_all(request(self.port, "DELETE", &self.session, None).as_bytes())?;
        stream.read_exact(&mut [0; 12])
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if !self.session.is_empty() {
            drop(self.close());
        }
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn request(port: u16, method: &str, path: &str, body: Option<&Value>) -> String {
    let body = body.map(ToString::to_string).unwrap_or_default();
    format!(
        "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// How many bytes an answer still lacks, as far as that can be told.
fn missing(answer: &[u8]) -> usize {
    let text = String::from_utf8_lossy(answer);
    let Some((head, _)) = text.split_once("\r\n\r\n") else { return 1 };
    let lines = head.lines().filter_map(|line| line.split_once(':'));
    let mut lengths = lines.filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let length: usize =
        lengths.next().and_then(|(_, value)| value.trim().parse().ok()).unwrap_or(0);
    (head.len() + 4 + length).saturating_sub(answer.len())
}

/// The value of an answer, or its error.
fn read(answer: &[u8]) -> Said {
    let body = answer.windows(4).position(|four| four == b"\r\n\r\n").map_or(0, |end| end + 4);
    let told: Value = serde_json::from_slice(&answer[body..])
        .map_err(|error| format!("{error}: {}", String::from_utf8_lossy(answer)))?;
    match told["value"]["error"].as_str() {
        Some(error) => Err(format!("{error}: {}", told["value"]["message"])),
        None => Ok(told["value"].clone()),
    }
}
