//! `torus-sm top`: what happens now, refreshed at an interval.

use super::http::HttpClient;
use super::lists::port_name;
use super::status::count_of;
use super::table::TextTable;
use super::values::{duration, list, text};
use crate::cli::CommandFailure;
use crate::cli::output::{clear_screen, print};
use serde_json::Value;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Rows of each table.
const MAX_ROWS: usize = 8;

/// Refreshes until interrupted, or `count` times.
///
/// # Errors
/// There is no daemon.
pub(super) async fn run(
    client: &HttpClient,
    interval: u32,
    count: Option<u32>,
) -> Result<(), CommandFailure> {
    let mut last: Option<(Instant, Value)> = None;
    for round in 1_u32.. {
        let status = client.get_json("/v1/status").await?;
        // Not available on a standby.
        let sa = client.get_json("/v1/sa").await.unwrap_or(Value::Null);
        let links = client.get_json("/v1/links").await.unwrap_or(Value::Null);
        let counters =
            client.get_json("/v1/counters?errors_only=true").await.unwrap_or(Value::Null);
        let now = Instant::now();
        let mut out = heading(&status);
        if let Some((then, before)) = &last {
            out.push_str(&sa_rates(before, &sa, (now - *then).as_secs_f64()));
        }
        out.push_str(&busiest_links(&links));
        out.push_str(&ports_with_errors(&counters));
        last = Some((now, sa));
        clear_screen();
        if !print(&out)? || count.is_some_and(|count| round >= count) {
            break;
        }
        sleep(Duration::from_secs(interval.into())).await;
    }
    Ok(())
}

fn heading(status: &Value) -> String {
    let sm = &status["sm"];
    let up = if sm["subnet_up"] == true { "subnet up" } else { "subnet not configured" };
    let sweep = list(&status["sweeps"]).last();
    let sweep = sweep.map_or("none".to_owned(), |sweep| {
        let seconds = sweep["duration_seconds"].as_f64().map_or_else(String::new, duration);
        format!("{} {} in {seconds}", text(&sweep["kind"]), text(&sweep["result"]))
    });
    let queues = &status["queues"];
    format!(
        "{}, {up}, {}; now: {}; last sweep: {sweep}; {}, {} queued\n",
        text(&sm["state"]),
        status["routing"]["in_use"].as_str().unwrap_or("no routes"),
        text(&status["activity"]),
        count_of(&queues["sm_events"], "SM event", "SM events"),
        count_of(&queues["sa_requests"], "SA request", "SA requests"),
    )
}

/// Counts of a list by a key.
fn counts<'a>(rows: &'a [Value], key: impl Fn(&'a Value) -> String) -> HashMap<String, u64> {
    rows.iter().map(|row| (key(row), row["replies"].as_u64().unwrap_or(0))).collect()
}

/// Replies per second by attribute and by requester, the most first.
fn sa_rates(before: &Value, now: &Value, seconds: f64) -> String {
    let mut out = String::new();
    for (title, name, key) in [
        ("SA REPLIES", "by_attribute", &attribute as &dyn Fn(&Value) -> String),
        ("SA REQUESTER", "top_requesters", &requester),
    ] {
        let [before, now] = [before, now].map(|reply| counts(list(&reply[name]), key));
        out.push_str(&rate_table(title, &before, now, seconds));
    }
    out
}

fn requester(row: &Value) -> String {
    match row["description"].as_str() {
        Some(description) => format!("{description} (LID {})", row["lid"]),
        None => format!("LID {}", row["lid"]),
    }
}

fn attribute(row: &Value) -> String {
    let [attribute, method, status] =
        ["attribute", "method", "status"].map(|name| text(&row[name]).to_owned());
    let status = if status == "0x0000" { String::new() } else { format!(" {status}") };
    format!("{attribute} {method}{status}")
}

fn rate_table(
    title: &'static str,
    before: &HashMap<String, u64>,
    now: HashMap<String, u64>,
    seconds: f64,
) -> String {
    let mut rows: Vec<(u64, String)> = now
        .into_iter()
        .map(|(key, count)| {
            let earlier = before.get(&key).copied().unwrap_or(0);
            (count.saturating_sub(earlier), key)
        })
        .filter(|(count, _)| *count > 0)
        .collect();
    rows.sort_by(|a, b| (Reverse(a.0), &a.1).cmp(&(Reverse(b.0), &b.1)));
    let mut table = TextTable::new(&[title, "PER SECOND"]);
    for (count, key) in rows.into_iter().take(MAX_ROWS) {
        table.add(vec![key, format!("{:.1}", count as f64 / seconds.max(1e-3))]);
    }
    framed(&table)
}

/// A table after an empty line; nothing for an empty one.
fn framed(table: &TextTable) -> String {
    if table.is_empty() { String::new() } else { format!("\n{}", table.text("")) }
}

/// Links by the rate of their busier end.
fn busiest_links(links: &Value) -> String {
    let mut rows: Vec<(f64, usize, &Value)> = Vec::new();
    for link in list(&links["links"]) {
        for (end, rate) in list(&link["rates"]).iter().enumerate() {
            rows.extend(rate.as_f64().filter(|&rate| rate > 0.0).map(|rate| (rate, end, link)));
        }
    }
    rows.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut table = TextTable::new(&["SENDER", "RECEIVER", "RATE"]);
    for (rate, end, link) in rows.into_iter().take(MAX_ROWS) {
        table.add(vec![end_name(link, end), end_name(link, 1 - end), octets(rate)]);
    }
    framed(&table)
}

fn end_name(link: &Value, at: usize) -> String {
    port_name(&link["ends"][at])
}

/// Octets per second in a suitable unit.
fn octets(rate: f64) -> String {
    match rate {
        rate if rate < 1e3 => format!("{rate:.0} B/s"),
        rate if rate < 1e6 => format!("{:.1} kB/s", rate / 1e3),
        rate if rate < 1e9 => format!("{:.1} MB/s", rate / 1e6),
        rate => format!("{:.1} GB/s", rate / 1e9),
    }
}

/// Ports whose errors increased within the window.
fn ports_with_errors(counters: &Value) -> String {
    let mut ports: Vec<&Value> =
        list(&counters["ports"]).iter().filter(|port| error_count(port) > 0).collect();
    ports.sort_by_key(|port| Reverse(error_count(port)));
    let mut table = TextTable::new(&["PORT WITH ERRORS", "NEW", "COUNTERS"]);
    for port in ports.into_iter().take(MAX_ROWS) {
        let name = port_name(port);
        let all = port["errors"].as_object().into_iter().flatten();
        let counters = all.filter(|(name, count)| *name != "xmit_wait" && **count != 0);
        let counters: Vec<_> = counters.map(|(name, count)| format!("{name} {count}")).collect();
        table.add(vec![name, error_count(port).to_string(), counters.join(", ")]);
    }
    framed(&table)
}

fn error_count(port: &Value) -> u64 {
    port["window_rates"]["errors"].as_u64().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn rates_are_increases_per_second() {
        let out = sa_rates(&sa(100), &sa(150), 2.0);
        let rows: Vec<Vec<&str>> =
            out.lines().map(|line| line.split_whitespace().collect()).collect();
        assert!(rows.contains(&vec!["PathRecord", "get", "25.0"]), "{out}");
        assert!(rows.contains(&vec!["h", "(LID", "7)", "25.0"]), "{out}");
        assert!(!out.contains("NodeRecord"), "{out}");
        assert_eq!(sa_rates(&sa(1), &sa(1), 2.0), "");
    }

    fn sa(replies: u64) -> Value {
        json!({ "by_attribute": [
                { "attribute": "PathRecord", "method": "get", "status": "0x0000", "replies": replies },
                { "attribute": "NodeRecord", "method": "get", "status": "0x0300", "replies": 5 },
            ], "top_requesters": [{ "lid": 7, "description": "h", "replies": replies }] })
    }

    #[test]
    fn links_and_ports_are_sorted() {
        let links = json!({ "links": [
            { "ends": [end("a"), end("b")], "rates": [2000.0, 5e6] },
            { "ends": [end("c"), end("d")], "rates": null },
        ] });
        let out = busiest_links(&links);
        let rows: Vec<&str> = out.lines().skip(2).collect();
        assert!(rows[0].starts_with("\"b\"[1]") && rows[0].ends_with("5.0 MB/s"), "{out}");
        assert!(rows[1].ends_with("2.0 kB/s"), "{out}");
        let errors = json!({ "ports": [{ "description": "s", "port": 3,
            "errors": { "rcv_err": 4, "xmit_wait": 9 }, "window_rates": { "errors": 4 } }] });
        assert!(ports_with_errors(&errors).contains("rcv_err 4\n"));
        assert_eq!(busiest_links(&Value::Null), "");
    }

    fn end(name: &str) -> Value {
        json!({ "description": name, "port": 1 })
    }
}
