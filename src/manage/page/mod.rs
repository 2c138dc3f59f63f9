//! The page at `/`: the fabric with its live state, in one document without outside resources.

/// The document.
pub const PAGE: &str = concat!(
    "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n",
    "<meta name=\"viewport\" content=\"width=device-width\">\n<title>torus-sm</title>\n",
    "<link rel=\"icon\" href=\"data:,\">\n<style>\n",
    include_str!("page.css"),
    "</style>\n</head>\n<body>\n",
    include_str!("page.html"),
    "<script>\n\"use strict\";\n",
    include_str!("palette.js"),
    include_str!("api.js"),
    include_str!("model.js"),
    include_str!("layout.js"),
    include_str!("labels.js"),
    include_str!("traffic.js"),
    include_str!("draw.js"),
    include_str!("charts.js"),
    include_str!("panels.js"),
    include_str!("places.js"),
    include_str!("input.js"),
    include_str!("recording.js"),
    include_str!("main.js"),
    "</script>\n</body>\n</html>\n",
);

/// Limits of the document in the browser: it loads nothing from elsewhere, and is in no frame.
pub const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; \
    style-src 'unsafe-inline'; img-src data:; connect-src 'self'; form-action 'none'; \
    frame-ancestors 'none'; base-uri 'none'";

/// The document with a recording that it shows, without a daemon. `recording` is a reply of `/v1/replay` as
/// JSON.
pub fn with_recording(recording: &str) -> String {
    // In JSON, the character is in texts only. It could end the element otherwise.
    let recording = recording.replace('<', "\\u003c");
    let element = format!(
        "<script type=\"application/json\" id=\"recorded\">\n{recording}\n</script>\n<script>\n"
    );
    PAGE.replacen("<script>\n", &element, 1)
}

#[cfg(test)]
mod tests {
    use super::{PAGE, with_recording};

    #[test]
    fn a_recording_stays_within_its_element() {
        let page = with_recording(r#"{"reason":"</script><script>alert(1)"}"#);
        assert_eq!(page.matches("</script>").count(), PAGE.matches("</script>").count() + 1);
        assert!(page.contains(r#"{"reason":"\u003c/script>\u003cscript>alert(1)"}"#), "{page}");
    }

    #[test]
    fn the_page_is_complete_and_loads_nothing_from_elsewhere() {
        assert!(PAGE.starts_with("<!doctype html>") && PAGE.ends_with("</html>\n"));
        assert_eq!(PAGE.matches("<script>").count(), 1);
        for foreign in ["http://", "https://", "src=", "import ", "innerHTML", "eval("] {
            assert!(!PAGE.contains(foreign), "{foreign}");
        }
    }
}
