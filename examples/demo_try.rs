//! Throw-away.
#[tokio::main]
async fn main() {
    tracing_subscriber::fmt().with_max_level(tracing::Level::WARN).with_writer(std::io::stderr).init();
    let dir = std::path::PathBuf::from(std::env::args().nth(1).unwrap());
    let o = feedmill::demo::Options { publishers: 50, seed: 1, rate: 600.0, publish_for: std::time::Duration::from_secs(10), limit: std::time::Duration::from_secs(25), dir, keep: false };
    let mut n = 0;
    let r = feedmill::demo::run(&o, Default::default(), |w| { n += 1; if n % 5 == 0 { eprintln!("{} {:?} {:?}", w.published, w.simulated, w.progress) } }).await.unwrap();
    println!("{r:#?}");
}
