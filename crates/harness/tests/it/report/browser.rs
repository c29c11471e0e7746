//! The page in a real browser, where there is one: no script fails, nothing is asked for, and it fits a phone.
//!
//! The browser is `$LIGHTSHIP_CHROMIUM`, or `chromium` of the path; without one the test says so and passes.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::Duration,
};

use lightship_harness::process::wait_for;

use super::{report, whole};

const PATIENCE: Duration = Duration::from_secs(120);

fn browser() -> Option<PathBuf> {
    if let Some(named) = env::var_os("LIGHTSHIP_CHROMIUM") {
        return Some(named.into());
    }
    let path = env::var_os("PATH")?;
    let places = env::split_paths(&path).map(|folder| folder.join("chromium"));
    places.into_iter().find(|place| place.exists())
}

/// The page's elements after its scripts have run, and what the browser said meanwhile.
fn opened(browser: &Path, page: &Path, profile: &Path, width: u32) -> Output {
    let mut child = Command::new(browser)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
        ])
        .args([
            "--disable-background-networking",
            "--disable-component-update",
            "--no-first-run",
        ])
        .args([
            "--enable-logging=stderr",
            "--dump-dom",
            "--virtual-time-budget=5000",
        ])
        .arg(format!("--window-size={width},2400"))
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(format!(
            "--log-net-log={}",
            profile.join("net.json").display()
        ))
        .arg(format!("file://{}", page.display()))
        .stdin(Stdio::null())
        .stdout(fs::File::create(profile.join("dom")).unwrap())
        .stderr(fs::File::create(profile.join("said")).unwrap())
        .spawn()
        .unwrap();
    let ended = wait_for("the browser's end", PATIENCE, || {
        child.try_wait()?.ok_or_else(|| anyhow::anyhow!("it runs"))
    });
    if ended.is_err() {
        let _ = child.kill();
    }
    Output {
        status: ended.unwrap(),
        stdout: fs::read(profile.join("dom")).unwrap(),
        stderr: fs::read(profile.join("said")).unwrap(),
    }
}

#[test]
fn the_page_runs_without_an_error_or_a_request_on_a_desk_and_on_a_phone() {
    let Some(browser) = browser() else {
        eprintln!("SKIPPED: no chromium; name one in LIGHTSHIP_CHROMIUM");
        return;
    };
    let folder = whole();
    let (out, _) = report(&[&folder]);
    let page = out.path().join("report.html").canonicalize().unwrap();
    for width in [1_280, 390] {
        let profile = tempfile::tempdir().unwrap();
        let opened = opened(&browser, &page, profile.path(), width);
        let said = String::from_utf8_lossy(&opened.stderr);
        assert!(opened.status.success(), "{said}");
        // What a page's console says, an uncaught error or a broken policy among it, comes as lines of this kind.
        assert!(!said.contains("CONSOLE"), "{said}");
        let dom = String::from_utf8_lossy(&opened.stdout);
        assert!(
            dom.matches("class=\"uplot").count() > 3,
            "no chart was drawn"
        );
        assert!(
            dom.matches("<button type=\"button\">").count() > 10,
            "no table can be sorted"
        );
    }
}

/// The page's own policy forbids every request, so one that is tried is an error in the console: were it not, the test above would prove nothing.
#[test]
fn a_page_that_asks_for_something_is_caught() {
    let Some(browser) = browser() else {
        eprintln!("SKIPPED: no chromium; name one in LIGHTSHIP_CHROMIUM");
        return;
    };
    let folder = whole();
    let (out, html) = report(&[&folder]);
    let page = out.path().join("asks.html");
    for asks in [
        "<img src=\"http://127.0.0.1:9/picture\">",
        "<script>document.title = 1</script>",
    ] {
        fs::write(&page, html.replacen("<main>", &format!("<main>{asks}"), 1)).unwrap();
        let profile = tempfile::tempdir().unwrap();
        let opened = opened(&browser, &page, profile.path(), 1_280);
        let said = String::from_utf8_lossy(&opened.stderr);
        assert!(said.contains("CONSOLE"), "{asks}: {said}");
    }
}
