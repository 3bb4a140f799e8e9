//! `fesc doctor`: is this machine fit to run the program, and if not, what is to be done.

use std::time::{Duration, Instant};

use anyhow::Result;
use fesc_net::{ClientSecurity, Config, Identity, Listener, NetError, ServerSecurity, connect};
use fesc_ring::{Prg, cpu};

use crate::bench::net::{accept, pair};
use crate::cli::Transport;
use crate::parties::tag;
use crate::report::{Format, Report, Row};
use crate::usage;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    Ok,
    Warn,
    Fail,
}

/// One check: what was found, and what to do if it is not well.
struct Finding {
    status: Status,
    detail: String,
    remedy: &'static str,
}

impl Finding {
    fn of(status: Status, detail: impl Into<String>, remedy: &'static str) -> Self {
        Self { status, detail: detail.into(), remedy: if status == Status::Ok { "" } else { remedy } }
    }

    /// Well if `good`, else a warning.
    fn wish(good: bool, detail: impl Into<String>, remedy: &'static str) -> Self {
        Self::of(if good { Status::Ok } else { Status::Warn }, detail, remedy)
    }

    /// Well if `good`, else a failure.
    fn must(good: bool, detail: impl Into<String>, remedy: &'static str) -> Self {
        Self::of(if good { Status::Ok } else { Status::Fail }, detail, remedy)
    }
}

type Check = fn() -> Finding;

/// Runs all checks and prints them. An error if any of them failed.
pub fn run(format: Format) -> Result<()> {
    let checks: [(&'static str, Check); 9] = [
        ("simd", simd),
        ("aes", aes),
        ("ifma", ifma),
        ("cores", cores),
        ("memory", memory),
        ("randomness", randomness),
        ("tls", tls),
        ("clock", clock),
        ("open-files", open_files),
    ];
    let mut report = Report::new(format);
    let mut failed = Vec::new();
    for (name, check) in checks {
        let Finding { status, detail, remedy } = check();
        if status == Status::Fail {
            failed.push(name);
        }
        let status = match status {
            Status::Ok => "ok",
            Status::Warn => "warn",
            Status::Fail => "fail",
        };
        report
            .add(Row::new().with("check", name).with("status", status).with("detail", detail).with("remedy", remedy))?;
    }
    report.finish()?;
    if failed.is_empty() { Ok(()) } else { Err(anyhow::anyhow!("failed: {}", failed.join(", "))) }
}

fn simd() -> Finding {
    let chosen = cpu::path();
    let best = cpu::Path::available().last().unwrap_or(chosen);
    let detail = format!("path {} of {}", chosen.name(), best.name());
    if let Some(unknown) = std::env::var_os("FESC_SIMD").filter(|v| !cpu::Path::ALL.iter().any(|p| *v == p.name())) {
        let detail = format!("{detail}; FESC_SIMD={} is no path and has no effect", unknown.display());
        return Finding::wish(false, detail, "set FESC_SIMD to portable, avx2 or avx512, or unset it");
    }
    Finding::wish(chosen == best, detail, "FESC_SIMD lowers the path; unset it for full speed")
}

#[cfg(target_arch = "x86_64")]
fn aes() -> Finding {
    let (plain, wide) = (is_x86_feature_detected!("aes"), is_x86_feature_detected!("vaes"));
    let detail = format!("AES-NI {}, VAES {}", found(plain), found(wide));
    Finding::wish(
        plain,
        detail,
        "oblivious transfer runs in plain Rust, many times slower; use a processor with AES-NI",
    )
}

#[cfg(target_arch = "x86_64")]
fn ifma() -> Finding {
    let present = is_x86_feature_detected!("avx512ifma");
    let detail = format!("AVX-512 IFMA {}", found(present));
    Finding::wish(present, detail, "matrix products are slower; Ice Lake, Zen 4 or later have it")
}

#[cfg(target_arch = "x86_64")]
fn found(present: bool) -> &'static str {
    if present { "found" } else { "not found" }
}

#[cfg(not(target_arch = "x86_64"))]
fn aes() -> Finding {
    Finding::wish(
        false,
        "no x86-64 processor",
        "the kernels run in plain Rust; x86-64 with AES-NI is many times faster",
    )
}

#[cfg(not(target_arch = "x86_64"))]
fn ifma() -> Finding {
    Finding::wish(false, "no x86-64 processor", "matrix products run in plain Rust, slower")
}

fn cores() -> Finding {
    match std::thread::available_parallelism() {
        Ok(n) => Finding::wish(n.get() >= 2, format!("{n}"), "with one core, two parties on this machine take turns"),
        Err(e) => Finding::wish(false, format!("unknown: {e}"), "give --threads by hand"),
    }
}

fn memory() -> Finding {
    match usage::available_memory() {
        Some(bytes) => {
            let detail = format!("{:.1} GB available", bytes as f64 / 1e9);
            Finding::wish(
                bytes >= 2_000_000_000,
                detail,
                "2 GB or more are needed for large tensors; use fewer elements",
            )
        }
        None => Finding::wish(false, "unknown", "no /proc/meminfo here; watch the memory yourself"),
    }
}

fn randomness() -> Finding {
    const REMEDY: &str = "nothing secret can be made here; repair getrandom (kernel, container or sandbox)";
    match (Prg::from_os(), Prg::from_os()) {
        (Ok(mut a), Ok(mut b)) => {
            Finding::must(a.next_u128() != b.next_u128(), "two seeds from the operating system differ", REMEDY)
        }
        (Err(e), _) | (_, Err(e)) => Finding::must(false, e.to_string(), REMEDY),
    }
}

/// A message there and back over TLS on the loopback, and a wrong pin refused.
fn tls() -> Finding {
    const REMEDY: &str = "allow TCP on 127.0.0.1 (firewall, container or sandbox) and 16 open files for this program";
    match talk().and_then(|()| refuses_a_wrong_pin()) {
        Ok(true) => Finding::must(true, "TCP and TLS 1.3 on the loopback work, a wrong pin is refused", REMEDY),
        Ok(false) => Finding::must(false, "a wrong pin was NOT refused", "do not use this build; please report it"),
        Err(e) => Finding::must(false, e.to_string(), REMEDY),
    }
}

fn limits() -> Config {
    let limit = Duration::from_secs(5);
    Config { connect_timeout: limit, read_timeout: limit, write_timeout: limit, ..Config::default() }
}

fn talk() -> Result<(), NetError> {
    let (mut near, mut far) = pair(Transport::Tls, &limits())?;
    near.send(tag::SELF_TEST, vec![7; 1000])?;
    far.send(tag::SELF_TEST, vec![8; 1000])?;
    far.recv(tag::SELF_TEST, 1000)?;
    near.recv(tag::SELF_TEST, 1000).map(drop)
}

fn refuses_a_wrong_pin() -> Result<bool, NetError> {
    let (server, other) = (Identity::generate()?, Identity::generate()?);
    let listener = Listener::bind("127.0.0.1:0", ServerSecurity::Tls(server), limits())?;
    let address = listener.address().to_string();
    let session = [0; 32];
    let admitted = accept(listener, session);
    match connect(&address, &ClientSecurity::Tls(other.fingerprint()), &session, &limits()) {
        Err(NetError::WrongPin { .. }) => Ok(admitted.recv().is_ok_and(|r| r.is_err())),
        Err(e) => Err(e),
        Ok(_) => Ok(false),
    }
}

fn clock() -> Finding {
    let mut last = Instant::now();
    let begin = last;
    let mut smallest = Duration::MAX;
    for _ in 0..100_000 {
        let now = Instant::now();
        if now < last {
            return Finding::must(
                false,
                "the monotonic clock went back",
                "time limits cannot work; repair the host's clock",
            );
        }
        if now > last {
            smallest = smallest.min(now - last);
        }
        last = now;
    }
    let moved = last > begin && smallest < Duration::from_millis(1);
    let detail =
        if last > begin { format!("monotonic, steps of {smallest:?}") } else { "the clock stands still".into() };
    Finding::must(moved, detail, "time limits and figures need a clock with steps below 1 ms")
}

fn open_files() -> Finding {
    match usage::open_file_limit() {
        Some(u64::MAX) => Finding::wish(true, "no limit", ""),
        Some(n) => Finding::wish(n >= 256, format!("{n}"), "raise it to 256 or more: ulimit -n 1024"),
        None => Finding::wish(false, "unknown", "no /proc/self/limits here; see ulimit -n"),
    }
}
