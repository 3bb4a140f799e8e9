//! The measurements and their options.

use clap::{Args, Subcommand, ValueEnum};
use fesc_net::Profile;

use super::*;

/// The measurements.
#[derive(Debug, Subcommand)]
pub enum Bench {
    /// Matrix products modulo 2^bits.
    ///
    /// Prints m, k, n, bits, path, threads, gmac_per_s (10^9 multiply-and-adds a second, the fastest of
    /// several runs).
    ///
    /// Example: fesc bench gemm --m 512 --k 768 --n 3352 --bits 48
    Gemm(GemmArgs),
    /// Accuracy of a model under each form of its nonlinearities (paper, tables degree_selection and
    /// allapprox).
    ///
    /// DATA has train, validation and test (.jsonl or .jsonl.zst). For each set of forms the model is scored
    /// on test with the forms put in place of the true functions (post_swap), and once more after a short
    /// training with the forms in place from its first step (aware): the same steps for all, so that `exact`
    /// is the control. Everything in float: what forms cost in fixed point is `fesc eval --twin`. A
    /// checkpoint of a stage has no tokenizer.json: copy the model's into it. Prints forms, length,
    /// post_swap, aware, documents, epochs, seconds.
    ///
    /// Example: fesc bench forms --data scotus --model my-model --length 512 --epochs 0.5
    Forms(FormsArgs),
    /// Oblivious transfer between two processes on this machine.
    ///
    /// Each party is a process of its own, so its CPU time and memory are its own. Set-up (base OT and the
    /// first iteration) is measured apart; the other figures are for the n transfers after it. Prints
    /// protocol, n, cot_per_cpu_second_sender, cot_per_cpu_second_receiver, bytes_per_cot (both directions),
    /// wall_s, peak_rss_bytes (the larger of the two processes); with --json also setup_s, setup_bytes and
    /// security_bits (our estimate for LPN).
    ///
    /// Example: fesc bench ot --n 16777216 --protocol silent
    Ot(OtArgs),
    /// The channel: latency, and throughput one way and both ways.
    ///
    /// Prints transport, net, rtt_us (median of small messages there and back), one_way_mb_per_s,
    /// both_ways_mb_per_s (sum of both directions; 1 MB = 10^6 bytes), rounds and bytes as counted by the
    /// channel.
    ///
    /// Example: fesc bench net --transport tls --net wan1
    Net(NetArgs),
    /// A whole private inference between two processes on this machine (three with a dealer).
    ///
    /// Weights and document are random. Correlations are made at the moment of use, so that their time is
    /// measured apart; `serve` makes them ahead, beside the protocol. Prints shape, layers, length, provider,
    /// net, online_s, offline_s (correlations, and the client's blocks of the linear layers), setup_s,
    /// online_bytes, offline_bytes, setup_bytes (the model's public part is most of it), rounds,
    /// peak_rss_bytes_client, peak_rss_bytes_server, rel_error, max_error (of a layer's result against the
    /// twin's from the same input; short runs, or --check); with --json also plan, offline_rounds,
    /// declared_online_bytes, threads, stages. Fails if declared and counted bytes differ.
    ///
    /// Example: fesc bench infer --shape base --layers 1 --length 128 --json
    Infer(InferArgs),
    /// Protocols on shares between two processes on this machine (three with a dealer).
    ///
    /// Correlations are made first (offline), then the protocol runs on random shared inputs (online), then
    /// the result is opened and compared with the true function. Times are wall times of the slower party,
    /// per element; bytes are counted by the channel in both directions and must equal the declared ones
    /// exactly, or the command fails.
    ///
    /// Prints op, form, provider, elements, online_us_per_el, online_bytes_per_el, offline_us_per_el,
    /// offline_bytes_per_el, rounds, max_error (absolute, for rsqrt relative); with --json also
    /// declared_online_bytes, declared_rounds, setup_s, setup_bytes (base OT and first iteration, not in the
    /// other figures) and security_bits (our estimate for LPN).
    ///
    /// Example: fesc bench mpc --op silu --elements 65536 --json
    Mpc(MpcArgs),
    /// CKKS: every operation of a client and a server on the chains of the peers' measurements.
    ///
    /// Scale 2^40, all slots full, operands fresh from a secret key, top level. A loop of as many transforms
    /// as the operation has runs in turn with it, and results are decrypted and compared with the true ones.
    /// Prints n, levels, digits (of a key switch), log_qp, op, threads, min_ms, median_ms, precision_bits
    /// (-log2 of the largest error of a slot), ntt_ratio (time over that of the loop; none for an operation
    /// without transforms); with --json also chain, cpu_ms (processor time, all threads, mean), transforms,
    /// ntt_us and ntt_cpu_us (one transform in that loop), ntt_units (time in transforms), and for rotate the
    /// shares of its time: transforms_share, conversion_share, inner_product_share, memory_share (what
    /// reading the key from memory adds to the inner product), rest_share. On a busy machine runs of more
    /// than some milliseconds are interrupted: compare cpu_ms with ntt_cpu_us.
    ///
    /// multiply has its relinearisation; multiply_rescale divides once for both. encode_coefficients stops
    /// before the transforms, decode_boundary has two primes. hoisted8 is eight rotations of one ciphertext.
    ///
    /// --level measures key switches at every level instead: n, levels, level, digits, log_qp, op
    /// (relinearise_rescale, rotate, and hoisted_rotate, one of eight), threads, min_ms, median_ms,
    /// precision_bits; with --json also set, chain, cpu_ms, transforms. --set takes any named set; its chain
    /// is 0.
    ///
    /// Example: fesc bench ckks --chain 3 --op multiply_rescale,rotate --threads 1,2
    Ckks(CkksArgs),
    /// Number-theoretic transforms and products slot by slot, one thread.
    ///
    /// Prints n, prime (the largest of its length), bits, path, forward_us, inverse_us, pointwise_us (minima,
    /// for one polynomial of one prime, buffers in the cache); with --json also the medians
    /// forward_median_us, inverse_median_us, pointwise_median_us.
    ///
    /// Example: fesc bench ntt --n 32768,65536 --bits 50
    Ntt(NttArgs),
    /// What crosses between shares and ciphertexts around one encrypted scan (paper, table
    /// ablation_boundary).
    ///
    /// Variants: dense (states both ways), contraction (updates up, outputs down), factorised (x, a, B, C up,
    /// outputs down). Dense and contraction have two values in each slot. Layouts of factorised, for the
    /// packing hybrid: replicated (an upload for each input), packed (B, C and decays many to one, as in a
    /// session), paired (two packs to one), compact (x once, results merged). Bytes follow from declarations.
    /// A sample is converted up and down again between two parties in this process, and checked.
    ///
    /// Prints variant, layout, length, ciphertexts_up, ciphertexts_down, up_bytes, down_bytes (of one layer,
    /// online), seconds (ciphertexts times those of the sample), unpacking (key switches that take uploads
    /// apart and merge results), predicted_s (conversions, scan and --net), cheapest, paper_ciphertexts,
    /// paper_bytes (its table's, which have the other boundaries of a layer in them); with --json also shape,
    /// set, values_up,
    /// ahead_bytes (up, if uploads were made ahead), rounds, sample, up_ms, up_cpu_ms, down_ms,
    /// down_cpu_ms (of a ciphertext, both parties), net, threads.
    ///
    /// Example: fesc bench boundary --shape base --length 128
    Boundary(BoundaryArgs),
    /// A layer's projections under encryption: HEInProj with HEConv, and HEOutProj (paper, sections
    /// ks-he:ctpt and ks-he:conv).
    ///
    /// Weights and activations are random, keys are made for the run, and client and server are one process.
    /// Prints kernel (in_proj_conv, out_proj), length, key_switches, plain_products, depth, seconds
    /// (evaluation alone), peak_bytes (memory of this process so far), precision_bits (-log2 of the largest
    /// error over the largest result), paper (its seconds on one A100, for base at 2,048 tokens); with
    /// --json also cpu_s (processor time, all threads), shape, set, rows, columns, inputs, results,
    /// hoisted_rotations, key_bytes, key_memory_bytes, live_bytes (ciphertexts at once, by the count),
    /// threads.
    ///
    /// Example: fesc bench project --shape base --length 128 --threads 2
    Project(ProjectArgs),
    /// The paper's schedule of the encrypted scan in blocks of several sizes, counted (paper, table
    /// scan_residency). Nothing is encrypted.
    ///
    /// Prints length, block, blocks, compositions (of all chunks), formula (key switches by the paper's
    /// formula), counted (the same of the circuit), key_switches (with broadcasts, and updates that the
    /// second pass builds again, which the paper does not count), depth, depth_serial (with carries one
    /// after the other), live_bytes (ciphertexts at once), set (the named one that is deep enough),
    /// paper_key_switches, paper_peak_bytes, paper_s (of its table); with --json also shape, chunks,
    /// broadcast, build_again.
    ///
    /// Example: fesc bench residency --length 2048 --block 256,1024
    Residency(ResidencyArgs),
    /// The selective scan under encryption (paper, section ks-he:scan), one layer unless told.
    ///
    /// The packet is random, keys are made for the run, and client and server are one process. The set is the
    /// named one of the smallest depth that suffices, the cut the cheapest one that fits --memory by a count
    /// of transforms. Inputs are in memory if they fit half of it, else encrypted whenever the kernel wants
    /// one, for which the time is counted apart.
    ///
    /// Prints kernel, packing, topology, length, block (tokens of one), layers, key_switches, rotations,
    /// products (of ciphertexts), depth, seconds (evaluation alone), predicted_s (counts times operations
    /// that are measured before the run, one by one, at their levels), peak_bytes (memory of this process),
    /// precision_bits (-log2 of the largest error over the largest output), paper (its seconds on one A100,
    /// for base and Brent-Kung); with --json also cpu_s (processor time of evaluation, all threads, and of
    /// inputs that are encrypted meanwhile), shape, set, blocks, coordinates, leaf, relinearisations,
    /// family, composition_relinearisations, paper_composition_relinearisations (with --family),
    /// conjugations, plain_products, uploads (ciphertexts that go up), key_bytes, key_memory_bytes, inputs
    /// (held or streamed), input_seconds (of all threads together), live_bytes (ciphertexts at once, by the
    /// count), threads.
    ///
    /// Example: fesc bench scan --shape base --packing hybrid --length 128 --threads 2
    Scan(ScanArgs),
}

/// Options of `bench gemm`.
#[derive(Debug, Args)]
pub struct GemmArgs {
    /// Rows of the first matrix.
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub m: u32,
    /// Columns of the first matrix.
    #[arg(long, default_value_t = 768, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub k: u32,
    /// Columns of the second matrix.
    #[arg(long, default_value_t = 3352, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub n: u32,
    /// Width of the ring.
    #[arg(long, default_value_t = 48, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub bits: u32,
    /// SIMD path; `all` takes every one that this processor has.
    #[arg(long, value_enum, default_value_t = PathChoice::All)]
    pub path: PathChoice,
    /// Threads; above 1 the parallel form runs, on the best path only.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: u16,
}

/// A SIMD path by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PathChoice {
    /// Every path of this processor.
    All,
    /// Plain Rust.
    Portable,
    /// AVX2.
    Avx2,
    /// AVX-512 with IFMA and VAES.
    Avx512,
}

/// Options of `bench ot`.
#[derive(Debug, Args)]
pub struct OtArgs {
    /// Transfers.
    #[arg(long, default_value_t = 1 << 24)]
    pub n: u64,
    /// Protocol; `all` runs the three (base OT with at most 1024 transfers).
    #[arg(long, value_enum, default_value_t = OtProtocol::All)]
    pub protocol: OtProtocol,
    /// How the processes are connected and limited.
    #[command(flatten)]
    pub link: LinkArgs,
}

/// An OT protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OtProtocol {
    /// All of them.
    All,
    /// Silent correlated OT.
    Silent,
    /// IKNP extension.
    Iknp,
    /// Base OT over Ristretto, in batches of 128.
    Base,
}

/// Options of `bench net`.
#[derive(Debug, Args)]
pub struct NetArgs {
    /// Transport.
    #[arg(long, value_enum, default_value_t = Transport::Tcp)]
    pub transport: Transport,
    /// Network to imitate: none, lan, wan1, wan2, wan3, or bandwidth,rtt as in 200mbps,10ms.
    #[arg(long, default_value = "none", value_parser = profile)]
    pub net: Profile,
    /// Megabytes per direction; on a slow network as many as two seconds carry.
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..=16_384))]
    pub megabytes: u64,
    /// Messages there and back.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub pings: u64,
}

/// How two ends are connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Transport {
    /// Queues inside one process.
    Memory,
    /// Plain TCP on the loopback.
    Tcp,
    /// TCP with TLS 1.3 on the loopback.
    Tls,
}

/// Options of `bench mpc`.
#[derive(Debug, Args)]
pub struct MpcArgs {
    /// The protocol; `all` runs every one that has the form.
    #[arg(long, value_enum)]
    pub op: Op,
    /// Our form, or the paper's (silu, softplus, exp, rsqrt only).
    #[arg(long, value_enum, default_value_t = Form::Ours)]
    pub form: Form,
    /// Who makes the correlations: the two parties, or a third process that must not collude with either.
    #[arg(long, value_enum, default_value_t = Provider::TwoParty)]
    pub provider: Provider,
    /// Elements: inputs of an activation, values of a row, results of a product. At most 2^26.
    #[arg(long, default_value_t = 1 << 16)]
    pub elements: u64,
    /// Width of the comparison of `compare` (44 unless told) and `thresholds` (13 unless told).
    #[arg(long, value_parser = clap::value_parser!(u32).range(2..=64))]
    pub bits: Option<u32>,
    /// Thresholds of `compare` (1 unless told) and `thresholds` (5 unless told).
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub thresholds: Option<u32>,
    /// How the processes are connected and limited.
    #[command(flatten)]
    pub link: LinkArgs,
}

/// A form of an activation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// Threshold-shared piecewise forms and their kin.
    Ours,
    /// The paper's even-residual, MMExp and NeRMS forms.
    Paper,
}
