//! Requests go to devices in turn, few at a time to each.

use super::*;
use std::collections::{HashMap, VecDeque};

fn to_device(lid: u16, modifier: u32) -> SmpRequest {
    SmpRequest::set(SmpRoute::Lid(Lid(lid)), ATTR, modifier, [0; DATA_SIZE])
}

/// A client whose limit of requests to one device is the default.
fn limited_bench(window: usize) -> Bench {
    let bench = bench(window);
    bench.client.set_limits(SmpLimits { window, ..SmpLimits::default() });
    bench
}

#[tokio::test(start_paused = true)]
async fn a_full_window_loads_many_devices_and_none_with_more_than_its_limit() {
    const DEVICES: u16 = 48;
    const REQUESTS: u32 = 20;
    let bench = limited_bench(64);
    let mut batch = bench.client.batch();
    let mut device_of = HashMap::new();
    for device in 1..=DEVICES {
        for number in 0..REQUESTS {
            let tag = u64::from(device) << 32 | u64::from(number);
            batch.submit(tag, to_device(device, tag as u32 | u32::from(device) << 16));
            device_of.insert(number | u32::from(device) << 16, device);
        }
    }
    let mut flying = VecDeque::from(bench.port.take());
    let mut order: Vec<u16> = flying.iter().map(|mad| device_of[&modifier(mad)]).collect();
    while let Some(mad) = flying.pop_front() {
        bench.answer(&mad, |_| {});
        let sent = bench.port.take();
        order.extend(sent.iter().map(|mad| device_of[&modifier(mad)]));
        flying.extend(sent);
        for device in 1..=DEVICES {
            let load = flying.iter().filter(|mad| device_of[&modifier(mad)] == device).count();
            assert!(load <= 2, "{load} requests at device {device}");
        }
    }
    assert_eq!(order.len(), usize::from(DEVICES) * REQUESTS as usize);
    for window in order.windows(64) {
        let devices: std::collections::HashSet<_> = window.iter().collect();
        assert!(devices.len() >= 32, "64 consecutive requests meet {} devices", devices.len());
    }
}

#[tokio::test(start_paused = true)]
async fn the_repetition_of_a_stalled_request_goes_out() {
    let bench = limited_bench(8);
    let mut batch = bench.client.batch();
    (0..4).for_each(|tag| batch.submit(tag, to_device(1, tag as u32)));
    assert_eq!(bench.port.take().len(), 2);
    assert_eq!(batch.next_event().await, Some(BatchEvent::Stalled(0)));
    assert_eq!(batch.next_event().await, Some(BatchEvent::Stalled(1)));
    bench.demux.pump();
    let further: Vec<_> = bench.port.take().iter().map(modifier).collect();
    assert_eq!(further, [2, 3]);
}

#[tokio::test(start_paused = true)]
async fn cancelled_and_interrupted_requests_free_their_device() {
    let bench = limited_bench(8);
    let mut batch = bench.client.batch();
    (0..5).for_each(|tag| batch.submit(tag, to_device(1, tag as u32)));
    assert_eq!(batch.cancel(|tag| tag < 3), [2, 0, 1]);
    let sent: Vec<_> = bench.port.take().iter().map(modifier).collect();
    assert_eq!(sent, [0, 1, 3, 4]);
    batch.submit(5, to_device(1, 5));
    bench.demux.interrupt("unplugged");
    let mut failed = Vec::new();
    while let Some((tag, result)) = batch.next().await {
        assert_eq!(result, Err(SmpError::Send("unplugged".into())));
        failed.push(tag);
    }
    failed.sort_unstable();
    assert_eq!(failed, [3, 4, 5]);
    batch.submit(6, to_device(1, 6));
    assert_eq!(bench.port.take().len(), 1, "nothing counts as in flight");
}
