//! The server that is measured on: schemas of our own, which are gone afterwards.
//!
//! Nothing outside of those schemas is touched, and a server on another machine is refused.

use std::net::IpAddr;
use std::str::FromStr as _;
use std::time::Duration;

use anyhow::Context as _;
use tokio_postgres::config::Host;
use tokio_postgres::{Client, Config, NoTls};

/// A server, and the name of this run on it.
#[derive(Debug)]
pub(super) struct Server {
    url: String,
    run: String,
}

impl Server {
    pub(super) fn new(url: &str) -> anyhow::Result<Self> {
        anyhow::ensure!(
            url.starts_with("postgres://") || url.starts_with("postgresql://"),
            "the address must begin with postgres://"
        );
        anyhow::ensure!(
            is_local(&Config::from_str(url).context("the address cannot be read")?),
            "this benchmark fills a database and loads its server: give one on 127.0.0.1, as \
             `scripts/postgres start DIR` makes it"
        );
        Ok(Self { url: url.to_owned(), run: format!("feedmill_bench_{}", std::process::id()) })
    }

    /// Makes an empty schema; the address at which it is found.
    pub(super) async fn schema(&self, part: &str) -> anyhow::Result<String> {
        let (run, url) = (&self.run, &self.url);
        connect(url).await?.batch_execute(&format!("CREATE SCHEMA {run}_{part}")).await?;
        let sign = if url.contains('?') { '&' } else { '?' };
        let options = format!("application_name={run}_{part}&options=-csearch_path%3D{run}_{part}");
        Ok(format!("{url}{sign}{options}"))
    }

    /// The CPU time that the server has spent on the connections to a schema that are open now. It is
    /// on this machine, so its processes can be asked.
    pub(super) async fn cpu(&self, part: &str) -> anyhow::Result<Duration> {
        let sql = "SELECT pid FROM pg_stat_activity WHERE application_name = $1";
        let client = connect(&self.url).await?;
        let mut ticks = 0;
        for row in client.query(sql, &[&format!("{}_{part}", self.run)]).await? {
            let stat =
                std::fs::read_to_string(format!("/proc/{}/stat", row.try_get::<_, i32>(0)?))?;
            // The name of the process, in brackets, may hold anything; user and system time are the
            // 12th and 13th field behind it.
            let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
            for field in fields.skip(11).take(2) {
                ticks += field.parse::<u32>()?;
            }
        }
        let rate = u32::try_from(rustix::param::clock_ticks_per_second())?;
        Ok(Duration::from_secs(1) * ticks / rate)
    }

    /// Ends what still runs for us and removes all that we made.
    pub(super) async fn clear(&self) -> anyhow::Result<()> {
        let client = connect(&self.url).await?;
        let sql = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
            WHERE starts_with(application_name, $1)";
        let ours = format!("{}_", self.run);
        client.query(sql, &[&ours]).await?;
        let sql = "SELECT nspname::text FROM pg_namespace WHERE starts_with(nspname::text, $1)";
        for row in client.query(sql, &[&ours]).await? {
            let schema: &str = row.try_get(0)?;
            client.batch_execute(&format!("DROP SCHEMA {schema} CASCADE")).await?;
        }
        Ok(())
    }
}

/// Whether all of its hosts are this machine.
fn is_local(config: &Config) -> bool {
    let named = config.get_hosts().iter().all(|host| match host {
        Host::Tcp(name) => {
            name == "localhost" || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
        }
        #[cfg(unix)]
        Host::Unix(_) => true,
    });
    named && config.get_hostaddrs().iter().all(IpAddr::is_loopback)
}

/// A connection, which ends with its client.
pub(super) async fn connect(url: &str) -> anyhow::Result<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    #[expect(clippy::disallowed_methods, reason = "it ends with its client")]
    tokio::spawn(async move { drop(connection.await) });
    Ok(client)
}

/// Fills tables while their indexes are away: the end is the same, and it comes much sooner.
pub(super) async fn fill(client: &Client, tables: &[&str], insert: &str) -> anyhow::Result<()> {
    let sql = "SELECT i.indexrelid::regclass::text, pg_get_indexdef(i.indexrelid), c.conname::text,
          pg_get_constraintdef(c.oid)
        FROM pg_index i LEFT JOIN pg_constraint c ON c.conindid = i.indexrelid
        WHERE i.indrelid = to_regclass($1)";
    let (mut drops, mut makes) = (Vec::new(), Vec::new());
    for table in tables {
        for row in client.query(sql, &[table]).await? {
            let (index, made): (&str, String) = (row.try_get(0)?, row.try_get(1)?);
            match (row.try_get::<_, Option<&str>>(2)?, row.try_get::<_, Option<&str>>(3)?) {
                (Some(name), Some(meant)) => {
                    drops.push(format!("ALTER TABLE {table} DROP CONSTRAINT {name}"));
                    makes.push(format!("ALTER TABLE {table} ADD CONSTRAINT {name} {meant}"));
                }
                _ => {
                    drops.push(format!("DROP INDEX {index}"));
                    makes.push(made);
                }
            }
        }
        makes.push(format!("ANALYZE {table}"));
    }
    let steps = [drops.join("; "), insert.to_owned(), makes.join("; ")].join("; ");
    client.batch_execute("SET maintenance_work_mem = '256MB'").await?;
    Ok(client.batch_execute(&format!("BEGIN; {steps}; COMMIT")).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_server_on_this_machine_is_filled() {
        for (url, local) in [
            ("postgres://me@127.0.0.1:5432/x", true),
            ("postgresql://me@localhost/x", true),
            ("postgres://me@%2Frun%2Fpostgresql/x", true),
            ("postgres://me@db.example.com/x", false),
            ("postgres://me@10.0.0.7/x", false),
            ("postgres://me@127.0.0.1,10.0.0.7/x", false),
            ("postgres://me@localhost/x?hostaddr=10.0.0.7", false),
        ] {
            assert_eq!(Server::new(url).is_ok(), local, "{url}");
        }
        assert!(Server::new("host=127.0.0.1 user=me").is_err());
    }
}
