//! The report of a shadow as an HTML page that needs no other file.

use super::report::ShadowReport;

/// The beginning of the page.
const HEAD: &str = "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
    <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
    <title>torus-sm shadow</title>\n<style>\n\
    :root{color-scheme:light dark}\n\
    body{font:16px/1.5 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem}\n\
    .safe{color:#1a7f37}.unsafe{color:#cf222e}\n\
    table{border-collapse:collapse;width:100%}\n\
    td,th{border-bottom:1px solid #8884;padding:.3rem .6rem;text-align:left;vertical-align:top}\n\
    </style></head><body>\n";

/// The page.
pub fn page(report: &ShadowReport) -> String {
    let reasons = report.reasons();
    let class = if reasons.is_empty() { "safe" } else { "unsafe" };
    let mut page = format!("{HEAD}<h1 class=\"{class}\">{}</h1>\n", escape(report.verdict()));
    page += &list("", &reasons);
    page += &list("Warnings", &report.warnings());
    page += &list("Observed", &report.facts());
    page += &list("Differences", &report.difference_lines());
    page += &list("Paths with another service level", &report.path_sls.differing);
    page += &list("Not answered", &report.unanswered);
    let changes: Vec<String> = report.changes.iter().map(ShadowReport::change_line).collect();
    page += &list("Changes of the fabric", &changes);
    page + "</body></html>\n"
}

/// A list with a heading; nothing without items.
fn list(heading: &str, items: &[String]) -> String {
    if items.is_empty() {
        return String::new();
    }
    let heading = if heading.is_empty() { String::new() } else { format!("<h2>{heading}</h2>\n") };
    let items: String = items.iter().map(|item| format!("<li>{}</li>\n", escape(item))).collect();
    format!("{heading}<ul>\n{items}</ul>\n")
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\'' => escaped += "&#39;",
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Node descriptions come from the fabric.
    #[test]
    fn descriptions_cannot_add_markup() {
        let report = ShadowReport {
            passes: 1,
            unanswered: vec!["\"<script>alert('x')</script>\"[1]".to_owned()],
            ..ShadowReport::default()
        };
        let page = page(&report);
        assert!(!page.contains("<script"), "{page}");
        assert!(page.contains("&lt;script&gt;"), "{page}");
        assert!(page.contains("<h1 class=\"unsafe\">NOT safe to switch</h1>"), "{page}");
    }
}
