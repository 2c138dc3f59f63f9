//! Headless Chromium, controlled by its DevTools protocol on a pair of pipes.

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use serde_json::{Value, json};
use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use testkit::{Running, tool};

/// Time for anything that a page does.
const LIMIT: Duration = Duration::from_secs(60);

/// The file for what the browser prints.
const LOG: &str = "log";

/// Number of times that the browser is started until it answers its first request.
const STARTS: usize = 3;

/// A browser with one page.
pub(crate) struct Browser {
    process: Running,
    /// Its profile, its pipes and what it printed.
    dir: TempDir,
    requests: File,
    replies: BufReader<File>,
    next_id: u64,
    session: Option<String>,
    /// Exceptions of the page.
    exceptions: Vec<String>,
}

impl Browser {
    /// Opens a page of 1400 x 900 pixels; `None` after printing SKIPPED if Chromium is not
    /// installed.
    pub(crate) fn open(url: &str) -> Option<Self> {
        let chromium = tool("chromium")?;
        let mut failures = Vec::new();
        for _ in 0..STARTS {
            let mut browser = Self::start(&chromium);
            match browser.request("Browser.getVersion", json!({})) {
                Ok(_) => {
                    browser.attach(url);
                    return Some(browser);
                }
                Err(failure) => failures.push(failure),
            }
        }
        panic!("Chromium does not start:\n{}", failures.join("\n"));
    }

    fn start(chromium: &Path) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let [input, output] = ["requests", "replies"].map(|name| dir.path().join(name));
        for path in [&input, &output] {
            mkfifo(path, Mode::S_IRUSR | Mode::S_IWUSR).expect("a pipe");
        }
        // The browser reads requests from descriptor 3 and writes replies to descriptor 4.
        let script = "exec \"$CHROMIUM\" --headless=new --no-sandbox --disable-gpu --no-first-run \
                      --disable-dev-shm-usage --disable-background-networking --in-process-gpu \
                      --no-zygote --disable-crash-reporter --password-store=basic \
                      --window-size=1400,900 --user-data-dir=\"$PROFILE\" \
                      --remote-debugging-pipe about:blank 3<\"$INPUT\" 4>\"$OUTPUT\"";
        let child = Command::new("sh")
            .args(["-c", script])
            .env("CHROMIUM", chromium)
            // It writes there, too, and may not start if it cannot.
            .env("HOME", dir.path())
            .env("PROFILE", dir.path().join("profile"))
            .env("INPUT", &input)
            .env("OUTPUT", &output)
            .stdout(Stdio::null())
            .stderr(File::create(dir.path().join(LOG)).expect("a file"))
            .spawn();
        let process = Running(child.expect("a shell"));
        // In the order of the shell, which waits for the other end of each.
        let requests = OpenOptions::new().write(true).open(&input).expect("a pipe");
        let replies = BufReader::new(File::open(&output).expect("a pipe"));
        Self { process, dir, requests, replies, next_id: 1, session: None, exceptions: Vec::new() }
    }

    fn attach(&mut self, url: &str) {
        let target = self.call("Target.createTarget", json!({ "url": "about:blank" }));
        let id = &target["targetId"];
        let params = json!({ "targetId": id, "flatten": true });
        let attached = self.call("Target.attachToTarget", params);
        self.session = Some(attached["sessionId"].as_str().expect("a session").to_owned());
        self.call("Runtime.enable", json!({}));
        let size = json!({ "width": 1400, "height": 900, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", size);
        self.call("Page.navigate", json!({ "url": url }));
    }

    /// The result of a method.
    fn call(&mut self, method: &str, params: Value) -> Value {
        self.request(method, params).unwrap_or_else(|failure| panic!("{failure}"))
    }

    /// The result of a method, or why there is none.
    fn request(&mut self, method: &str, params: Value) -> Result<Value, String> {
        let id = self.next_id;
        self.next_id += 1;
        let mut request = json!({ "id": id, "method": method, "params": params });
        if let Some(session) = &self.session {
            request["sessionId"] = session.as_str().into();
        }
        write!(self.requests, "{request}\0").map_err(|err| self.end(method, &err.to_string()))?;
        loop {
            let mut text = Vec::new();
            match self.replies.read_until(0, &mut text) {
                Err(err) => return Err(self.end(method, &err.to_string())),
                Ok(0) => return Err(self.end(method, "end of its replies")),
                Ok(_) => text.pop(),
            };
            let message: Value = serde_json::from_slice(&text).expect("JSON");
            if message["method"] == "Runtime.exceptionThrown" {
                self.exceptions.push(message["params"]["exceptionDetails"].to_string());
            }
            if message["id"] == id {
                let error = &message["error"];
                let failure = || format!("{method}: {error}");
                return error.is_null().then(|| message["result"].clone()).ok_or_else(failure);
            }
        }
    }

    /// Ends a browser that does not answer; returns the reason and what it printed.
    fn end(&mut self, method: &str, reason: &str) -> String {
        let _ = self.process.0.kill();
        let status = self.process.0.wait();
        let log = std::fs::read_to_string(self.dir.path().join(LOG)).unwrap_or_default();
        format!("{method}: {reason}; {status:?}; the browser printed:\n{log}")
    }

    /// The value of an expression of the page.
    pub(crate) fn evaluate(&mut self, expression: &str) -> Value {
        let params =
            json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let result = self.call("Runtime.evaluate", params);
        let exception = &result["exceptionDetails"];
        assert!(exception.is_null(), "{expression}: {exception}");
        result["result"]["value"].clone()
    }

    /// The text of the element with this ID; empty without one.
    pub(crate) fn text(&mut self, id: &str) -> String {
        let found = self.evaluate(&format!("document.getElementById('{id}')?.textContent ?? ''"));
        found.as_str().unwrap_or_default().to_owned()
    }

    /// Waits until the text of an element contains `part`; returns the text.
    pub(crate) fn wait_for(&mut self, id: &str, part: &str) -> String {
        let start = Instant::now();
        loop {
            let text = self.text(id);
            if text.contains(part) {
                return text;
            }
            assert!(start.elapsed() < LIMIT, "#{id} does not say '{part}' but '{text}'");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Types a text into an input.
    pub(crate) fn type_into(&mut self, id: &str, text: &str) {
        self.evaluate(&format!(
            "(() => {{ const input = document.getElementById('{id}'); input.value = {}; \
             input.dispatchEvent(new Event('input')); }})()",
            Value::from(text)
        ));
    }

    pub(crate) fn submit(&mut self, form: &str) {
        self.evaluate(&format!("document.getElementById('{form}').requestSubmit()"));
    }

    /// Writes a picture of the page to a file in the folder that TORUS_SM_SCREENSHOTS names, if it
    /// does.
    pub(crate) fn screenshot(&mut self, name: &str) {
        let Some(folder) = std::env::var_os("TORUS_SM_SCREENSHOTS") else { return };
        let shot = self.call("Page.captureScreenshot", json!({ "format": "png" }));
        let data = shot["data"].as_str().expect("a picture");
        let path = Path::new(&folder).join(format!("{name}.png"));
        std::fs::write(path, base64(data)).expect("a file");
    }

    /// Makes the page a phone's: 390 x 844 pixels, with touch.
    pub(crate) fn become_phone(&mut self) {
        let size = json!({ "width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": true });
        self.call("Emulation.setDeviceMetricsOverride", size);
        self.call("Emulation.setTouchEmulationEnabled", json!({ "enabled": true }));
    }

    /// Whether the reader prefers dark pages.
    pub(crate) fn prefer_dark(&mut self, is_dark: bool) {
        let value = if is_dark { "dark" } else { "light" };
        let feature = json!({ "name": "prefers-color-scheme", "value": value });
        self.call("Emulation.setEmulatedMedia", json!({ "features": [feature] }));
    }

    /// Presses a key.
    pub(crate) fn press(&mut self, key: &str) {
        self.call("Input.dispatchKeyEvent", json!({ "type": "keyDown", "key": key }));
        self.call("Input.dispatchKeyEvent", json!({ "type": "keyUp", "key": key }));
    }

    /// The exceptions of the page so far.
    pub(crate) fn exceptions(&self) -> &[String] {
        &self.exceptions
    }
}

/// Decodes base 64 (RFC 4648, 4).
fn base64(text: &str) -> Vec<u8> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let digits: Vec<u8> = text.trim_end_matches('=').bytes().map(digit).collect();
    let octets = digits.chunks(4).flat_map(|chunk| {
        let bits = chunk.iter().fold(0_u32, |bits, &digit| bits << 6 | u32::from(digit));
        let bits = bits << (6 * (4 - chunk.len()));
        bits.to_be_bytes()[1..chunk.len()].to_vec()
    });
    octets.collect()
}
