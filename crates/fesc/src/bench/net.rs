//! `fesc bench net`: latency and throughput of a channel. Both ends are threads of this process.

use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use anyhow::{Context, Result, anyhow};
use fesc_net::{Channel, ClientSecurity, Config, Identity, Listener, NetError, Profile, ServerSecurity, connect};

use crate::cli::{self, NetArgs, Transport};
use crate::parties::{self, tag};
use crate::progress::Progress;
use crate::report::{Format, Report, Row};

/// Bytes of one message of the throughput test, less on a network that would carry none in its time.
const MESSAGE: usize = 1 << 20;

/// Bytes of one small message.
const SMALL: usize = 64;

/// A slow network gets only as many messages as it carries in about this time.
const SECONDS: f64 = 2.0;

/// What one end measured.
struct Measured {
    rtt_us: f64,
    one_way: f64,
    both_ways: f64,
    rounds: u64,
    bytes: u64,
}

/// Measures and prints.
pub fn run(args: &NetArgs, format: Format) -> Result<()> {
    let progress = Progress::start(format!("channel over {}, network {}", cli::name(args.transport), args.net));
    let config = Config { profile: args.net, ..Config::default() };
    let (near, far) = pair(args.transport, &config)?;
    let plan = Plan::new(args);
    let measured = std::thread::scope(|scope| -> Result<Measured> {
        let peer = scope.spawn(move || answer(far, plan));
        // `ask` drops its end, also after an error: the far one then ends too and does not wait for its time
        // limit.
        let measured = ask(near, plan);
        peer.join().map_err(|_| anyhow!("the thread of the far end died"))??;
        measured
    })?;
    drop(progress);
    let mut report = Report::new(format);
    report.add(
        Row::new()
            .with("transport", cli::name(args.transport))
            .with("net", args.net.to_string())
            .with("rtt_us", measured.rtt_us)
            .with("one_way_mb_per_s", measured.one_way)
            .with("both_ways_mb_per_s", measured.both_ways)
            .with("rounds", measured.rounds)
            .with("bytes", measured.bytes),
    )?;
    report.finish()
}

/// Two connected ends over a transport, both in this process.
pub fn pair(transport: Transport, config: &Config) -> Result<(Channel, Channel), NetError> {
    let (server, client) = match transport {
        Transport::Memory => return Channel::memory_pair_with(config),
        Transport::Tcp => (ServerSecurity::InsecurePlaintext, ClientSecurity::InsecurePlaintext),
        Transport::Tls => {
            let identity = Identity::generate()?;
            let pin = identity.fingerprint();
            (ServerSecurity::Tls(identity), ClientSecurity::Tls(pin))
        }
    };
    let session = [0; 32];
    let listener = Listener::bind("127.0.0.1:0", server, config.clone())?;
    let address = listener.address().to_string();
    let accepted = accept(listener, session);
    let near = connect(&address, &client, &session, config)?;
    Ok((near, accepted.recv().map_err(|_| NetError::Ended)??))
}

/// Admits one client in a thread of its own. Nobody joins it: if the client cannot connect at all, it waits
/// for ever, and must not keep anybody with it.
pub fn accept(listener: Listener, session: [u8; 32]) -> Receiver<Result<Channel, NetError>> {
    let (tell, accepted) = channel();
    std::thread::spawn(move || {
        let result = listener.accept().and_then(|pending| pending.establish(&session));
        // The one who asked may have given up.
        drop(tell.send(result));
    });
    accepted
}

/// How many messages of each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Plan {
    pings: u64,
    messages: u64,
    /// Bytes of a message of the throughput test.
    size: usize,
}

impl Plan {
    fn new(args: &NetArgs) -> Self {
        let Profile { bits_per_second, rtt } = args.net;
        let carried = bits_per_second.map_or(f64::INFINITY, |rate| rate as f64 / 8.0 * SECONDS);
        // At least four messages, so a slow network gets smaller ones.
        let size = (carried / 4.0).clamp(256.0, MESSAGE as f64) as usize;
        let returned = if rtt.is_zero() { u64::MAX } else { (SECONDS / rtt.as_secs_f64()) as u64 };
        let messages = args.megabytes * 1_000_000 / size as u64;
        let carried = (carried / size as f64) as u64;
        Plan { pings: args.pings.min(returned).max(5), messages: messages.min(carried).max(4), size }
    }

    /// 10^6 bytes a second, all messages of one direction.
    fn rate(self, seconds: f64) -> f64 {
        (self.messages * self.size as u64) as f64 / seconds / 1e6
    }
}

fn ask(mut channel: Channel, plan: Plan) -> Result<Measured> {
    let mut times = Vec::new();
    for _ in 0..plan.pings {
        let start = Instant::now();
        channel.send(tag::PING, vec![0; SMALL])?;
        channel.recv(tag::PING, SMALL)?;
        times.push(start.elapsed().as_secs_f64() * 1e6);
    }
    times.sort_by(f64::total_cmp);
    let rtt_us = times.get(times.len() / 2).copied().context("no message came back")?;
    // Allocated before the clock starts: the channel is measured, not the memory of this test.
    let ready = payloads(plan);
    let start = Instant::now();
    for payload in ready {
        channel.send(tag::BULK, payload)?;
    }
    channel.recv(tag::BULK, 0)?;
    let one_way = plan.rate(start.elapsed().as_secs_f64());
    let ready = payloads(plan);
    parties::barrier(&mut channel)?;
    let start = Instant::now();
    for payload in ready {
        channel.exchange(tag::BULK, payload, plan.size)?;
    }
    let both_ways = 2.0 * plan.rate(start.elapsed().as_secs_f64());
    let total = channel.stats().total;
    Ok(Measured { rtt_us, one_way, both_ways, rounds: total.rounds, bytes: total.sent_bytes + total.received_bytes })
}

fn answer(mut channel: Channel, plan: Plan) -> Result<()> {
    for _ in 0..plan.pings {
        let message = channel.recv(tag::PING, SMALL)?;
        channel.send(tag::PING, message)?;
    }
    for _ in 0..plan.messages {
        channel.recv(tag::BULK, plan.size)?;
    }
    channel.send(tag::BULK, Vec::new())?;
    let ready = payloads(plan);
    parties::barrier(&mut channel)?;
    for payload in ready {
        channel.exchange(tag::BULK, payload, plan.size)?;
    }
    Ok(())
}

fn payloads(plan: Plan) -> Vec<Vec<u8>> {
    (0..plan.messages).map(|i| vec![i as u8 | 1; plan.size]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_networks_get_fewer_messages() {
        let args = |net| NetArgs { transport: Transport::Memory, net, megabytes: 256, pings: 1000 };
        assert_eq!(Plan::new(&args(Profile::NONE)), Plan { pings: 1000, messages: 244, size: MESSAGE });
        assert_eq!(Plan::new(&args(Profile::WAN3)), Plan { pings: 25, messages: 23, size: MESSAGE });
        let slow = Plan::new(&args(Profile::new(1_000_000, std::time::Duration::from_millis(10))));
        assert_eq!(slow, Plan { pings: 200, messages: 4, size: 62_500 });
    }
}
