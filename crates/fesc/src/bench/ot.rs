//! `fesc bench ot`: oblivious transfer between two processes. P0 is the sender, P1 the receiver.

use std::time::Instant;

use anyhow::Result;
use fesc_net::Channel;
use fesc_ot::{CotKind, OtReceiver, OtSender};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::cli::{OtArgs, OtProtocol};
use crate::exit::Refusal;
use crate::parties::child::tell;
use crate::parties::wire::{Event, Seat, Work};
use crate::parties::{self, barrier};
use crate::progress::Progress;
use crate::random::os_random;
use crate::report::{Format, Report, Row};
use crate::usage;

/// Transfers per call: results of a call are 1 MB and are dropped, as a consumer would.
const STEP: usize = 1 << 16;

/// Base OTs of one set-up.
const BASE: u64 = 128;

/// Above this many transfers one protocol would run for hours.
const MAX_TRANSFERS: u64 = 1 << 36;

/// What is to be transferred.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Task {
    protocol: Protocol,
    n: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Protocol {
    Silent,
    Iknp,
    Base,
}

impl Protocol {
    fn name(self) -> &'static str {
        match self {
            Protocol::Silent => "silent",
            Protocol::Iknp => "iknp",
            Protocol::Base => "base",
        }
    }
}

/// What one party measured.
#[derive(Debug, Serialize, Deserialize)]
struct Measured {
    setup_s: f64,
    setup_sent_bytes: u64,
    cpu_s: Option<f64>,
    wall_s: f64,
    sent_bytes: u64,
    peak_rss_bytes: Option<u64>,
}

/// Measures and prints.
pub fn run(args: &OtArgs, format: Format) -> Result<()> {
    if args.n == 0 || args.n > MAX_TRANSFERS {
        let remedy = "more would run for hours and show no more";
        return Err(Refusal::Limit { what: "transfers", value: args.n, max: MAX_TRANSFERS, remedy }.into());
    }
    let chosen = match args.protocol {
        OtProtocol::All => vec![Protocol::Silent, Protocol::Iknp, Protocol::Base],
        OtProtocol::Silent => vec![Protocol::Silent],
        OtProtocol::Iknp => vec![Protocol::Iknp],
        OtProtocol::Base => vec![Protocol::Base],
    };
    let progress = Progress::start("oblivious transfer");
    let mut report = Report::new(format);
    let measured = chosen.into_iter().try_for_each(|protocol| {
        let n = match (protocol, args.protocol) {
            (Protocol::Base, OtProtocol::All) => args.n.min(8 * BASE).next_multiple_of(BASE),
            (Protocol::Base, _) => args.n.next_multiple_of(BASE),
            _ => args.n,
        };
        let [sender, receiver] =
            parties::run::<Measured>(&args.link, false, Work::Ot(Task { protocol, n }), &progress)?;
        report.add(row(protocol, n, &sender, &receiver))
    });
    drop(progress);
    // What was measured before an error is printed all the same.
    report.finish()?;
    measured
}

fn row(protocol: Protocol, n: u64, sender: &Measured, receiver: &Measured) -> Row {
    let rate = |m: &Measured| m.cpu_s.map_or(f64::NAN, |s| n as f64 / s);
    let security = match protocol {
        Protocol::Silent => silent_security_bits(),
        Protocol::Iknp | Protocol::Base => f64::NAN,
    };
    Row::new()
        .with("protocol", protocol.name())
        .with("n", n)
        .with("cot_per_cpu_second_sender", rate(sender))
        .with("cot_per_cpu_second_receiver", rate(receiver))
        .with("bytes_per_cot", (sender.sent_bytes + receiver.sent_bytes) as f64 / n as f64)
        .with("wall_s", sender.wall_s.max(receiver.wall_s))
        .with("peak_rss_bytes", sender.peak_rss_bytes.max(receiver.peak_rss_bytes))
        .detail("setup_s", sender.setup_s.max(receiver.setup_s))
        .detail("setup_bytes", sender.setup_sent_bytes + receiver.setup_sent_bytes)
        .detail("security_bits", security)
}

/// The estimate for the weaker of the two LPN sets of silent OT.
pub fn silent_security_bits() -> f64 {
    let Ok(params) = fesc_ot::SilentParams::standard() else { return f64::NAN };
    let bits = [params.first(), params.main()].map(|p| {
        let lpn = fesc_ot::security::Lpn { k: p.k(), t: p.t(), log_block: p.log_block() };
        fesc_ot::security::estimate(lpn).bits
    });
    bits[0].min(bits[1])
}

/// One party's part.
pub fn party(seat: Seat, mut channel: Channel, task: &Task) -> Result<Value> {
    let mut prg = os_random()?;
    barrier(&mut channel)?;
    if task.protocol == Protocol::Base {
        let measured = measure(&mut channel, |channel| {
            for _ in 0..task.n / BASE {
                match seat {
                    Seat::P0 => drop(OtSender::setup(channel, CotKind::Iknp, &mut prg)?),
                    _ => drop(OtReceiver::setup(channel, CotKind::Iknp, &mut prg)?),
                }
            }
            Ok(())
        })?;
        return Ok(serde_json::to_value(measured)?);
    }
    let kind = if task.protocol == Protocol::Silent { CotKind::Silent } else { CotKind::Iknp };
    tell(&Event::Phase(format!("{} set-up", task.protocol.name())));
    let (start, before) = (Instant::now(), channel.stats().total);
    let mut source = match seat {
        Seat::P0 => Source::Sender(OtSender::setup(&mut channel, kind, &mut prg)?),
        _ => Source::Receiver(OtReceiver::setup(&mut channel, kind, &mut prg)?),
    };
    let (setup_s, setup) = (start.elapsed().as_secs_f64(), channel.stats().total.since(before));
    barrier(&mut channel)?;
    tell(&Event::Phase(format!("{} transfers", task.protocol.name())));
    let mut measured = measure(&mut channel, |channel| {
        let mut left = task.n;
        while left > 0 {
            let count = left.min(STEP as u64);
            source.step(channel, count as usize)?;
            left -= count;
        }
        Ok(())
    })?;
    (measured.setup_s, measured.setup_sent_bytes) = (setup_s, setup.sent_bytes);
    Ok(serde_json::to_value(measured)?)
}

enum Source {
    Sender(OtSender),
    Receiver(OtReceiver),
}

impl Source {
    fn step(&mut self, channel: &mut Channel, count: usize) -> Result<()> {
        match self {
            Source::Sender(s) => drop(s.correlated(channel, count)?),
            Source::Receiver(r) => drop(r.correlated(channel, count)?),
        }
        Ok(())
    }
}

fn measure(channel: &mut Channel, work: impl FnOnce(&mut Channel) -> Result<()>) -> Result<Measured> {
    let (start, before, cpu) = (Instant::now(), channel.stats().total, usage::cpu_seconds());
    work(channel)?;
    // The threads of the channel and of the pool still live, so their time is counted.
    let cpu_s = usage::cpu_seconds().zip(cpu).map(|(after, before)| after - before);
    Ok(Measured {
        setup_s: 0.0,
        setup_sent_bytes: 0,
        cpu_s,
        wall_s: start.elapsed().as_secs_f64(),
        sent_bytes: channel.stats().total.since(before).sent_bytes,
        peak_rss_bytes: usage::peak_rss_bytes(),
    })
}
