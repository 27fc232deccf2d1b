//! How long a campaign may take: `WK_SECONDS`. What fits into that time is spread over everything that there is.

use std::time::{Duration, Instant};

fn longest() -> Option<Duration> {
    std::env::var("WK_SECONDS").ok()?.parse().ok().map(Duration::from_secs)
}

/// Whether nothing more may be begun.
pub fn is_over(started: Instant) -> bool {
    longest().is_some_and(|longest| started.elapsed() >= longest)
}

/// In an order whose every beginning is spread over the whole, where time may end it: in strides of the golden section.
pub fn spread<T>(all: Vec<T>) -> Vec<T> {
    if longest().is_none() || all.is_empty() {
        return all;
    }
    let count = all.len();
    let place = |at: usize| (at as f64 * 0.618_033_988_749_895).fract();
    let mut order: Vec<(usize, T)> = all.into_iter().enumerate().collect();
    // The one that comes first in the sequence of fractions is played first.
    let mut ranks: Vec<usize> = (0..count).collect();
    ranks.sort_by(|one, other| place(*one).total_cmp(&place(*other)));
    order.sort_by_key(|(at, _)| ranks[*at]);
    order.into_iter().map(|(_, one)| one).collect()
}
