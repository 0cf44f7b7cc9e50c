//! News between processes: a connection that only listens. Nothing depends on it but speed; whoever
//! waits also looks by itself now and then.

use std::time::Duration;

use futures_util::{StreamExt, stream};
use tokio_postgres::{AsyncMessage, Config, Error};
use tokio_util::sync::CancellationToken;

use super::tls::Connector;

/// Something can be claimed that could not before.
pub(crate) const WORK: &str = "feedmill_work";
/// The log has grown.
pub(crate) const LOGGED: &str = "feedmill_log";

/// How long to wait before a lost connection is tried again.
const PAUSE: Duration = Duration::from_secs(2);

/// How long the server may take to answer before another connection is made.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Listens until told to stop.
pub(super) async fn listen(
    config: Config,
    tls: Connector,
    heard: impl Fn(&str) + Send + Sync,
    stop: CancellationToken,
) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            ended = attend(&config, &tls, &heard) => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "cannot hear other processes; trying again");
                }
            }
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(PAUSE) => {}
        }
    }
}

/// One connection's life.
async fn attend(
    config: &Config,
    tls: &Connector,
    heard: &(impl Fn(&str) + Sync),
) -> Result<(), Error> {
    let connecting = tokio::time::timeout(ANSWER_TIMEOUT, config.connect(tls.clone()));
    let Ok(connected) = connecting.await else { return Ok(()) };
    let (client, mut connection) = connected?;
    let mut messages = stream::poll_fn(move |context| connection.poll_message(context));
    let register = async {
        client.batch_execute(&format!("LISTEN {WORK}; LISTEN {LOGGED}")).await?;
        heard(WORK);
        heard(LOGGED);
        Ok(())
    };
    let attend = async {
        while let Some(message) = messages.next().await {
            if let AsyncMessage::Notification(news) = message? {
                heard(news.channel());
            }
        }
        Ok(())
    };
    tokio::try_join!(register, attend).map(|_| ())
}
