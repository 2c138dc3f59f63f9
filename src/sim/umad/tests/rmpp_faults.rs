//! RMPP messages over a fabric that loses, duplicates and delays packets arrive complete or time
//! out, and leave no state behind.

use super::*;
use std::time::Duration;
use tokio::time::timeout;

/// Faults of the whole fabric; delay and jitter in microseconds.
struct FaultLevels {
    loss: f64,
    duplication: f64,
    delay: u64,
    jitter: u64,
}

/// Sends table requests one after the other, to which a server responds with `data` bytes. Returns
/// the number of complete responses and of timeouts.
async fn request_tables(seed: u64, faults: &FaultLevels, data: usize, requests: u64) -> (u32, u32) {
    let (fabric, mut sm) = crate::sim::tests::seeded(seed);
    sm.bring_up().await;
    drop(sm);
    fabric.set_loss(faults.loss);
    fabric.set_duplication(faults.duplication);
    fabric.set_delay(Duration::from_micros(faults.delay));
    fabric.set_jitter(Duration::from_micros(faults.jitter));
    let client = Program::client(&fabric, HOST0);
    let server = Program::server(&fabric, HOST1);
    let serve = async {
        loop {
            let (header, asked) = server.next().await;
            if header.status != 0 {
                continue;
            }
            let answer = sa_message(0x92, Header::read(&asked).tid(), data, true);
            // The kernel rejects a second response while the first one is being sent.
            let _ = server.write(sent_to(header.address, 0, 5), &answer);
        }
    };
    let ask = async {
        let mut complete = 0;
        let mut timeouts = 0;
        for tid in 0..requests {
            let request = sa_message(GET_TABLE, tid, 200, false);
            client.write(sent_to(gsi(LID1), 20_000, 3), &request).expect("it is sent");
            let (header, arrived) = client.next().await;
            assert_eq!(Header::read(&arrived).tid() as u32, tid as u32);
            match header.status {
                0 => {
                    assert_eq!(arrived[36..], sa_message(0x92, 0, data, true)[36..]);
                    complete += 1;
                }
                status => {
                    assert_eq!((status, arrived.len()), (110, 24));
                    timeouts += 1;
                }
            }
        }
        (complete, timeouts)
    };
    let counts = tokio::select! {
        counts = ask => counts,
        () = serve => unreachable!("the server never stops"),
    };
    fabric.set_loss(0.0);
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert_idle(&fabric);
    counts
}

#[tokio::test(start_paused = true)]
async fn tables_arrive_complete_or_time_out() {
    let faults = FaultLevels { loss: 0.05, duplication: 0.1, delay: 50, jitter: 200 };
    for (seed, data) in (0..).zip([1, 200, 201, 3000, 20_000, 100_000]) {
        let asked = request_tables(seed, &faults, data, 5);
        let (complete, timeouts) =
            timeout(Duration::from_secs(3600), asked).await.expect("no request hangs");
        assert_eq!(complete + timeouts, 5, "{data} bytes");
        assert!(data > 20_000 || complete == 5, "{data} bytes: {complete} of 5");
    }
}

#[tokio::test(start_paused = true)]
async fn a_megabyte_arrives_out_of_order() {
    let faults = FaultLevels { loss: 0.0, duplication: 0.05, delay: 5, jitter: 500 };
    assert_eq!(request_tables(1, &faults, 1 << 20, 1).await, (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_megabyte_times_out_at_30_percent_loss() {
    let faults = FaultLevels { loss: 0.3, duplication: 0.0, delay: 5, jitter: 0 };
    assert_eq!(request_tables(1, &faults, 1 << 20, 1).await, (0, 1));
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_run() {
    let faults = FaultLevels { loss: 0.2, duplication: 0.2, delay: 10, jitter: 40 };
    let start = tokio::time::Instant::now();
    let first = (request_tables(7, &faults, 30_000, 4).await, start.elapsed());
    let start = tokio::time::Instant::now();
    assert_eq!((request_tables(7, &faults, 30_000, 4).await, start.elapsed()), first);
}
