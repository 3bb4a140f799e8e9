//! What this process has used: CPU time, and memory from `/proc`; `None` where there is none.

use std::fs;

use rustix::time::{ClockId, clock_gettime};

/// CPU seconds of this process, threads that have ended included, in nanosecond steps.
pub fn cpu_seconds() -> Option<f64> {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Some(time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9)
}

/// CPU seconds of this thread, in nanosecond steps.
pub fn thread_cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Greatest resident memory of this process so far, in bytes.
pub fn peak_rss_bytes() -> Option<u64> {
    kilobytes(&fs::read_to_string("/proc/self/status").ok()?, "VmHWM:")
}

/// Memory that a new process can use, in bytes: what the machine has free, and no more than its container may
/// still take.
pub fn available_memory() -> Option<u64> {
    let free = kilobytes(&fs::read_to_string("/proc/meminfo").ok()?, "MemAvailable:")?;
    let number = |name: &str| fs::read_to_string(format!("/sys/fs/cgroup/{name}")).ok()?.trim().parse::<u64>().ok();
    let left = number("memory.max").zip(number("memory.current")).map(|(most, used)| most.saturating_sub(used));
    Some(left.map_or(free, |left| free.min(left)))
}

/// Memory of the machine, or of its container if that may take less, in bytes.
pub fn total_memory() -> Option<u64> {
    let all = kilobytes(&fs::read_to_string("/proc/meminfo").ok()?, "MemTotal:")?;
    let most = fs::read_to_string("/sys/fs/cgroup/memory.max").ok().and_then(|text| text.trim().parse::<u64>().ok());
    Some(most.map_or(all, |most| all.min(most)))
}

/// The limit on open files of this process.
pub fn open_file_limit() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/limits").ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix("Max open files"))?;
    let soft = line.split_whitespace().next()?;
    if soft == "unlimited" { Some(u64::MAX) } else { soft.parse().ok() }
}

fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|l| l.strip_prefix(name))?;
    Some(rest.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    #[test]
    fn reads_the_forms_of_proc() {
        assert_eq!(super::kilobytes("VmPeak:\t 9 kB\nVmHWM:\t  12 kB\n", "VmHWM:"), Some(12 * 1024));
        assert_eq!(super::kilobytes("VmPeak:\t 9 kB\n", "VmHWM:"), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_process_has_used_something() {
        assert!(super::cpu_seconds().unwrap() > 0.0 && super::thread_cpu_seconds() > 0.0);
        assert!(super::peak_rss_bytes().unwrap() > 1 << 16);
        let available = super::available_memory().unwrap();
        assert!(available > 0 && super::total_memory().unwrap() >= available);
        assert!(super::open_file_limit().unwrap() > 0);
    }
}
