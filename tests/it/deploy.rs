//! What `deploy/` hands out is what it says.

use std::process::Command;

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
