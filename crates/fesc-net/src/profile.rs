//! Network profiles and the release schedule that imitates them.
//!
//! Each end delays its own sending, so a round trip costs the full round-trip time, as the paper's profiles
//! mean it:
//!
//! ```text
//! start     = max(queued, link free)
//! link free = start + bytes * 8 / bandwidth
//! release   = link free + RTT / 2
//! ```
//!
//! FIFO, no loss, no window: the imitated link keeps any number of bytes in flight. TLS overhead (about 0.2
//! percent) is not charged. The real network under it adds its own delay, so frames are never faster than the
//! profile. Only frames are shaped: connecting, the TLS handshake and the hello run at the speed of the real
//! network.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::NetError;

/// Bandwidth and round-trip time to imitate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Profile {
    /// Bits per second in each direction; `None` is unlimited.
    pub bits_per_second: Option<u64>,
    /// Round-trip time; each direction delays by half.
    pub rtt: Duration,
}

impl Default for Profile {
    fn default() -> Profile {
        Profile::NONE
    }
}

impl Profile {
    /// No shaping: the network as it is.
    pub const NONE: Profile = Profile { bits_per_second: None, rtt: Duration::ZERO };
    /// The paper's LAN: 1 Gbps, 0.3 ms.
    pub const LAN: Profile = Profile::new(1_000_000_000, Duration::from_micros(300));
    /// The paper's WAN1: 400 Mbps, 4 ms.
    pub const WAN1: Profile = Profile::new(400_000_000, Duration::from_millis(4));
    /// The paper's WAN2: 100 Mbps, 4 ms.
    pub const WAN2: Profile = Profile::new(100_000_000, Duration::from_millis(4));
    /// The paper's WAN3: 100 Mbps, 80 ms.
    pub const WAN3: Profile = Profile::new(100_000_000, Duration::from_millis(80));

    /// A profile with both limits.
    pub const fn new(bits_per_second: u64, rtt: Duration) -> Profile {
        Profile { bits_per_second: Some(bits_per_second), rtt }
    }

    /// Whether nothing is to be imitated.
    pub fn is_none(&self) -> bool {
        *self == Profile::NONE
    }

    /// The time on the link for this many bytes, rounded up to a nanosecond.
    pub fn transmission(&self, bytes: u64) -> Duration {
        match self.bits_per_second {
            None => Duration::ZERO,
            // A link without bandwidth never delivers; it must not be taken for an unlimited one.
            Some(0) => Duration::from_nanos(if bytes == 0 { 0 } else { u64::MAX }),
            Some(rate) => {
                let nanos = (u128::from(bytes) * 8_000_000_000).div_ceil(u128::from(rate));
                Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
            }
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.bits_per_second {
            None if self.rtt.is_zero() => return f.write_str("none"),
            None => f.write_str("unlimited")?,
            Some(rate) => in_units(f, u128::from(rate), &RATES)?,
        }
        f.write_str(",")?;
        in_units(f, self.rtt.as_nanos(), &TIMES)
    }
}

/// Bits per second, largest unit first.
const RATES: [(&str, u64); 4] = [("gbps", 1_000_000_000), ("mbps", 1_000_000), ("kbps", 1_000), ("bps", 1)];

/// Nanoseconds. `s` comes last of those that it ends.
const TIMES: [(&str, u64); 4] = [("ms", 1_000_000), ("us", 1_000), ("ns", 1), ("s", 1_000_000_000)];

/// A whole number in the first unit that divides it: nothing is lost when it is read back.
fn in_units(f: &mut fmt::Formatter<'_>, value: u128, units: &[(&str, u64)]) -> fmt::Result {
    let (unit, scale) = units.iter().find(|(_, s)| value.is_multiple_of(u128::from(*s))).unwrap_or(&("", 1));
    write!(f, "{}{unit}", value / u128::from(*scale))
}

impl FromStr for Profile {
    type Err = NetError;

    /// `none`, `lan`, `wan1`, `wan2`, `wan3`, or bandwidth and round-trip time as in `200mbps,10ms`
    /// (units `bps`, `kbps`, `mbps`, `gbps`, `unlimited`; `ns`, `us`, `ms`, `s`).
    fn from_str(text: &str) -> Result<Profile, NetError> {
        let refuse = |problem| NetError::Parse { what: "network profile", text: text.into(), problem };
        let lower = text.trim().to_ascii_lowercase();
        match lower.as_str() {
            "none" => return Ok(Profile::NONE),
            "lan" => return Ok(Profile::LAN),
            "wan1" => return Ok(Profile::WAN1),
            "wan2" => return Ok(Profile::WAN2),
            "wan3" => return Ok(Profile::WAN3),
            _ => {}
        }
        let (rate, rtt) = lower
            .split_once(',')
            .ok_or_else(|| refuse("use none, lan, wan1, wan2, wan3, or bandwidth,rtt as in 200mbps,10ms"))?;
        let bits_per_second = if rate.trim() == "unlimited" {
            None
        } else {
            let rate = quantity(rate, &RATES).ok_or_else(|| refuse("the bandwidth must look like 200mbps"))?;
            if !(1e3..=1e15).contains(&rate) {
                return Err(refuse("the bandwidth must be 1kbps to 1000000gbps, or unlimited"));
            }
            Some(rate as u64)
        };
        let rtt = quantity(rtt, &TIMES).ok_or_else(|| refuse("the round-trip time must look like 10ms"))?;
        if rtt > 60e9 {
            return Err(refuse("the round-trip time must be 60s or less"));
        }
        Ok(Profile { bits_per_second, rtt: Duration::from_nanos(rtt.round() as u64) })
    }
}

/// A non-negative number followed by one of the units, in base units.
fn quantity(text: &str, units: &[(&str, u64)]) -> Option<f64> {
    let text = text.trim();
    let (number, scale) = units.iter().find_map(|(unit, scale)| text.strip_suffix(unit).map(|n| (n, scale)))?;
    let value: f64 = number.trim().parse().ok()?;
    (value.is_finite() && value >= 0.0).then_some(value * *scale as f64)
}

/// The release schedule of one direction. A pure function of its inputs: the clock is an argument, so tests
/// need none.
#[derive(Debug, Clone)]
pub struct Pacer {
    profile: Profile,
    link_free: Duration,
}

impl Pacer {
    /// Bytes that are paced as one piece: small enough to be smooth, big enough to be cheap.
    pub const PIECE_BYTES: usize = 64 * 1024;

    /// A link that is free from time zero on.
    pub fn new(profile: Profile) -> Pacer {
        Pacer { profile, link_free: Duration::ZERO }
    }

    /// When the last of these bytes, queued at `queued`, arrives. Times are since any fixed start.
    pub fn release(&mut self, queued: Duration, bytes: u64) -> Duration {
        let start = self.link_free.max(queued);
        self.link_free = start.saturating_add(self.profile.transmission(bytes));
        self.link_free.saturating_add(self.profile.rtt / 2)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_papers_profiles() {
        for (name, mbps, micros) in
            [("LAN", 1000, 300), ("wan1", 400, 4_000), ("wan2", 100, 4_000), ("wan3", 100, 80_000)]
        {
            let p: Profile = name.parse().unwrap();
            assert_eq!(p, Profile::new(mbps * 1_000_000, Duration::from_micros(micros)), "{name}");
            assert_eq!(p.to_string().parse::<Profile>().unwrap(), p);
        }
    }

    #[test]
    fn custom_profiles() {
        let p: Profile = "200mbps,10ms".parse().unwrap();
        assert_eq!(p, Profile::new(200_000_000, 10 * MS));
        assert_eq!("1.5 Gbps, 250us".parse::<Profile>().unwrap(), Profile::new(1_500_000_000, MS / 4));
        assert_eq!("unlimited,2ms".parse::<Profile>().unwrap(), Profile { bits_per_second: None, rtt: 2 * MS });
        assert!("none".parse::<Profile>().unwrap().is_none());
        for text in ["200mbps,10ms", "1500mbps,250us", "1001bps,1ns", "unlimited,400ns", "1gbps,0ms"] {
            assert_eq!(text.parse::<Profile>().unwrap().to_string(), text);
        }
        for bad in
            ["", "wan4", "200mbps", "200,10ms", "-1mbps,1ms", "0mbps,1ms", "1mbps,1h", "nanmbps,1ms", "1mbps,61s"]
        {
            assert!(bad.parse::<Profile>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn one_frame_takes_transmission_plus_half_the_round_trip() {
        // 12,500 bytes at 100 Mbps is 1 ms.
        assert_eq!(Pacer::new(Profile::WAN3).release(5 * MS, 12_500), 46 * MS);
    }

    #[test]
    fn frames_queue_behind_each_other_but_share_the_latency() {
        let mut pacer = Pacer::new(Profile::WAN3);
        let times: Vec<_> = (0..4).map(|_| pacer.release(Duration::ZERO, 12_500)).collect();
        assert_eq!(times, [41 * MS, 42 * MS, 43 * MS, 44 * MS]);
        // After a pause the link is free again.
        assert_eq!(pacer.release(100 * MS, 12_500), 141 * MS);
    }

    #[test]
    fn pieces_add_up_to_the_whole() {
        let (mut whole, mut pieces) = (Pacer::new(Profile::WAN2), Pacer::new(Profile::WAN2));
        let expected = whole.release(MS, 125_000);
        let last = (0..10).map(|_| pieces.release(MS, 12_500)).last().unwrap();
        assert_eq!(last, expected);
        assert_eq!(expected, MS + 10 * MS + 2 * MS);
    }

    #[test]
    fn extreme_sizes_saturate() {
        let mut pacer = Pacer::new(Profile::new(1, Duration::MAX));
        assert_eq!(pacer.release(Duration::MAX, u64::MAX), Duration::MAX);
    }
}
