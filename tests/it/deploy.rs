//! What `deploy/` hands out is what it says.

use std::process::Command;

use crate::kill::binary;

#[test]
fn the_unit_is_as_closed_as_it_says() {
    let Ok(told) = Command::new("systemd-analyze")
        .args(["security", "--offline=true", "--threshold=20", "deploy/feedmill.service"])
        .env("SYSTEMD_COLORS", "0")
        .output()
    else {
        // There is no systemd here to ask.
        return;
    };
    let said = String::from_utf8_lossy(&told.stdout).into_owned();
    let errors = String::from_utf8_lossy(&told.stderr).into_owned();
    assert!(told.status.success(), "more than 2.0: {said}{errors}");
}

/// The unit as it stands, but for the place of the program.
#[test]
fn systemd_takes_the_unit() {
    let unit = std::fs::read_to_string("deploy/feedmill.service").unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("feedmill.service");
    let program = env!("CARGO_BIN_EXE_feedmill");
    std::fs::write(&path, unit.replace("/usr/local/bin/feedmill", program)).unwrap();
    let Ok(told) = Command::new("systemd-analyze").arg("verify").arg(&path).output() else {
        // There is no systemd here to ask.
        return;
    };
    let said = String::from_utf8_lossy(&told.stderr).into_owned();
    // What it says of other units of the machine is not about ours.
    let ours: Vec<&str> = said.lines().filter(|line| line.contains("feedmill.service")).collect();
    assert!(told.status.success() && ours.is_empty(), "{said}");
}

/// Every command line that is handed out is one that the program takes.
#[test]
fn the_program_knows_the_commands_that_are_handed_out() {
    let image = std::fs::read_to_string("deploy/Dockerfile").unwrap();
    let quoted = |line: &str| -> Vec<String> {
        let (_, list) = line.split_once('[').unwrap();
        serde_json::from_str(&format!("[{list}")).unwrap()
    };
    let line =
        |start: &str| image.lines().map(str::trim).find(|line| line.starts_with(start)).unwrap();
    let health = image.split("HEALTHCHECK").nth(1).unwrap().split("CMD ").nth(1).unwrap();
    let health = quoted(health.lines().next().unwrap());
    let started: Vec<String> = [quoted(line("ENTRYPOINT")), quoted(line("CMD [\"run"))].concat();
    let unit = std::fs::read_to_string("deploy/feedmill.service").unwrap();
    let exec = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
    let exec: Vec<String> = exec.split(' ').map(str::to_owned).collect();
    for command in [health, started, exec] {
        assert!(command[0].ends_with("feedmill"), "{command:?}");
        let told = binary().args(&command[1..]).arg("--help").output().unwrap();
        assert!(told.status.success(), "{command:?}: {told:?}");
    }
}

/// What is kept out of an image's build is not needed by it.
#[test]
fn an_image_is_built_from_what_the_program_is_made_of() {
    let kept = std::fs::read_to_string("deploy/Dockerfile.dockerignore").unwrap();
    let kept: Vec<&str> = kept.lines().filter_map(|line| line.strip_prefix('!')).collect();
    for path in &kept {
        assert!(std::path::Path::new(path).exists(), "{path} is not there");
    }
    for needed in ["Cargo.toml", "Cargo.lock", "src", "crates", "migrations", "web"] {
        assert!(kept.contains(&needed), "{needed} is kept out");
    }
}

#[test]
fn containers_run_without_rights_and_know_the_programs_keys() {
    let image = std::fs::read_to_string("deploy/Dockerfile").unwrap();
    assert!(image.contains("\nUSER 10001") && image.contains("\nHEALTHCHECK "));
    let compose = std::fs::read_to_string("deploy/compose.yaml").unwrap();
    let unit = std::fs::read_to_string("deploy/feedmill.service").unwrap();
    let reference = feedmill::config::reference();
    for text in [&image, &compose, &unit] {
        let words = text.split(|c: char| !(c.is_ascii_uppercase() || c == '_'));
        for name in words.filter_map(|word| word.strip_prefix("FEEDMILL_")) {
            if matches!(name, "CONFIG" | "CONTACT") {
                continue;
            }
            let path = name.to_ascii_lowercase().replace("__", ".");
            let (section, key) = path.split_once('.').unwrap_or(("", &path));
            assert!(section.is_empty() || reference.contains(&format!("[{section}]")), "{name}");
            assert!(reference.contains(&format!("{key} = ")), "{name}");
        }
    }
}
