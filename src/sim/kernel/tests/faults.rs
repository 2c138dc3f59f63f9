//! Long messages over a fabric that loses, doubles and delays: whole, or given up, and nothing
//! stays behind.

use super::*;
use std::time::Duration;
use tokio::time::timeout;

struct Weather {
    loss: f64,
    duplication: f64,
    delay: u64,
    jitter: u64,
}

/// A client asks for tables again and again; the server answers every request with `data` bytes.
/// Gives how many answers arrived and how many requests were given up.
async fn ask_for_tables(seed: u64, weather: &Weather, data: usize, asks: u64) -> (u32, u32) {
    let (fabric, mut sm) = crate::sim::tests::seeded(seed);
    sm.bring_up().await;
    drop(sm);
    fabric.set_loss(weather.loss);
    fabric.set_duplication(weather.duplication);
    fabric.set_delay(Duration::from_micros(weather.delay));
    fabric.set_jitter(Duration::from_micros(weather.jitter));
    let (client, server) = (Program::client(&fabric, HOST0), Program::server(&fabric, HOST1));
    let serve = async {
        loop {
            let (header, asked) = server.next().await;
            if header.status != 0 {
                continue;
            }
            let answer = sa_message(0x92, Header::read(&asked).tid(), data, true);
            // A repeated request while its answer is under way: the kernel refuses a second one.
            let _ = server.write(sent_to(header.address, 0, 5), &answer);
        }
    };
    let ask = async {
        let (mut whole, mut given_up) = (0, 0);
        for tid in 0..asks {
            let request = sa_message(GET_TABLE, tid, 200, false);
            client.write(sent_to(gsi(LID1), 20_000, 3), &request).expect("it is sent");
            let (header, arrived) = client.next().await;
            assert_eq!(Header::read(&arrived).tid() as u32, tid as u32);
            match header.status {
                0 => {
                    assert_eq!(arrived[36..], sa_message(0x92, 0, data, true)[36..]);
                    whole += 1;
                }
                status => {
                    assert_eq!((status, arrived.len()), (110, 24));
                    given_up += 1;
                }
            }
        }
        (whole, given_up)
    };
    let counts = tokio::select! {
        counts = ask => counts,
        () = serve => unreachable!("it serves for ever"),
    };
    fabric.set_loss(0.0);
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert_at_rest(&fabric);
    counts
}

#[tokio::test(start_paused = true)]
async fn tables_arrive_whole_or_are_given_up() {
    let storm = Weather { loss: 0.05, duplication: 0.1, delay: 50, jitter: 200 };
    for (seed, data) in (0..).zip([1, 200, 201, 3000, 20_000, 100_000]) {
        let asked = ask_for_tables(seed, &storm, data, 5);
        let (whole, given_up) =
            timeout(Duration::from_secs(3600), asked).await.expect("it never hangs");
        assert_eq!(whole + given_up, 5, "{data} bytes");
        assert!(data > 20_000 || whole == 5, "{data} bytes: {whole} of 5");
    }
}

#[tokio::test(start_paused = true)]
async fn a_megabyte_arrives_out_of_order() {
    let wind = Weather { loss: 0.0, duplication: 0.05, delay: 5, jitter: 500 };
    assert_eq!(ask_for_tables(1, &wind, 1 << 20, 1).await, (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_megabyte_through_a_hurricane_is_given_up() {
    let hurricane = Weather { loss: 0.3, duplication: 0.0, delay: 5, jitter: 0 };
    assert_eq!(ask_for_tables(1, &hurricane, 1 << 20, 1).await, (0, 1));
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_has_the_same_fate() {
    let rain = Weather { loss: 0.2, duplication: 0.2, delay: 10, jitter: 40 };
    let run = |seed| ask_for_tables(seed, &rain, 30_000, 4);
    let start = tokio::time::Instant::now();
    let first = (run(7).await, start.elapsed());
    let start = tokio::time::Instant::now();
    assert_eq!((run(7).await, start.elapsed()), first);
}
