//! Measures a channel over each transport on this machine: one-way throughput and the time of a small
//! exchange.
//!
//! `cargo run --release -p fesc-net --example loopback -- [MESSAGE_MIB] [MESSAGES] [EXCHANGES] [PROFILE]`
#![allow(clippy::unwrap_used, reason = "a program for measurements; any failure should end it")]

use std::time::Instant;

use fesc_net::{Channel, ClientSecurity, Config, Identity, Listener, NetError, Profile, ServerSecurity, Tag, connect};

const BULK: Tag = Tag(0x0301);
const PING: Tag = Tag(0x0302);

fn tcp_pair(server: ServerSecurity, client: ClientSecurity, config: &Config) -> Result<(Channel, Channel), NetError> {
    let session = [0; 32];
    let listener = Listener::bind("127.0.0.1:0", server, config.clone())?;
    let address = listener.address().to_string();
    std::thread::scope(|scope| {
        let accepted = scope.spawn(|| listener.accept()?.establish(&session));
        let client = connect(&address, &client, &session, config)?;
        Ok((client, accepted.join().unwrap()?))
    })
}

fn measure(name: &str, pair: (Channel, Channel), len: usize, count: usize, exchanges: usize) -> Result<(), NetError> {
    let (mut a, mut b) = pair;
    std::thread::scope(|scope| {
        let peer = scope.spawn(move || -> Result<(), NetError> {
            for _ in 0..count {
                b.recv(BULK, len)?;
            }
            b.send(BULK, vec![])?;
            for _ in 0..exchanges {
                b.exchange(PING, vec![0; 64], 64)?;
            }
            b.close()
        });
        let payloads: Vec<_> = (0..count).map(|i| vec![i as u8; len]).collect();
        let start = Instant::now();
        for payload in payloads {
            a.send(BULK, payload)?;
        }
        a.recv(BULK, 0)?;
        let bulk = start.elapsed().as_secs_f64();
        let start = Instant::now();
        for _ in 0..exchanges {
            a.exchange(PING, vec![0; 64], 64)?;
        }
        let ping = start.elapsed().as_secs_f64();
        peer.join().unwrap()?;
        println!(
            "{name:9} {:7.4} GB/s in messages of {} MiB, {:7.1} us per exchange of 64 bytes",
            (count * len) as f64 / bulk / 1e9,
            len >> 20,
            ping / exchanges.max(1) as f64 * 1e6
        );
        Ok(())
    })
}

fn main() -> Result<(), NetError> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |i: usize, default: usize| arguments.get(i).map_or(default, |a| a.parse().unwrap());
    let (len, count, exchanges) = (number(0, 4) << 20, number(1, 100), number(2, 2000));
    let profile = arguments.get(3).map_or(Ok(Profile::NONE), |text| text.parse())?;
    let config = Config { profile, ..Config::default() };
    measure("memory", Channel::memory_pair_with(&config)?, len, count, exchanges)?;
    let plain = tcp_pair(ServerSecurity::InsecurePlaintext, ClientSecurity::InsecurePlaintext, &config)?;
    measure("TCP", plain, len, count, exchanges)?;
    let identity = Identity::generate()?;
    let pin = ClientSecurity::Tls(identity.fingerprint());
    measure("TCP + TLS", tcp_pair(ServerSecurity::Tls(identity), pin, &config)?, len, count, exchanges)
}
