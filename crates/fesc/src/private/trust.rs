//! `--explain-trust`: what each side learns, and whom it trusts with what.

use anyhow::Result;
use fesc_hybrid::keys::KeyShape;
use fesc_infer::Schedule;

use crate::report::line;

/// What each side learns of a private run; `demo` shows the same.
pub const CLIENT_LEARNS: &str = "the label (or the floored logits, if it asks and the server allows), and the model's outline: shapes, scales, forms";
/// The other side.
pub const SERVER_LEARNS: &str = "the length bucket of the document, what the client asked for, when it came, from which address and with which certificate; nothing else";

/// What the privacy of a run rests on, in a sentence.
pub fn rests_on(schedule: &Schedule) -> Result<String> {
    let shares = "RLWE at N = 2048 and 2^48 (143 bits), LPN of silent transfers, TLS 1.3";
    let Some(distance) = schedule.log_distance()? else { return Ok(shares.into()) };
    let set = |keys: &KeyShape| {
        let params = keys.params();
        format!("N = {} and 2^{:.0} ({:.0} bits)", params.degree(), params.log_qp().ceil(), params.security().floor())
    };
    let sets: Vec<String> = schedule.keys().iter().map(set).collect();
    Ok(format!(
        "{shares}; under CKKS RLWE at {} with circular security, and for shares of what was decrypted before (KDM); masks \
         within 2^{distance:.1} an inference",
        sets.join(", ")
    ))
}

/// Prints it.
pub fn explain() -> Result<()> {
    line(&format!(
        "\
The client (`fesc classify`) has a document, the server (`fesc serve`) has a model.

The client learns     {CLIENT_LEARNS}.
The server learns     {SERVER_LEARNS}.
Nobody else learns    anything but sizes and times of messages, as long as TLS holds and the pin is the server's.

The client trusts     that the server follows the protocol (semi-honest: a server that does not may learn about the
                      document); that the pinned fingerprint is the server's; its own machine.
The server trusts     that clients follow the protocol (a client that does not may learn about the weights); its own
                      machine. Labels of many documents teach a client to imitate the model; logits teach it faster.
                      `--clients FILE` says who may ask, and how often a day.
Both trust            RLWE at N = 2048, q = 2^48 (143 bits for one secret), N = 4096 up to 2^104 and N = 16384 up to 2^349, with
                      circular security; LPN for silent oblivious transfer, AES, SHA-256, TLS 1.3; the random numbers of
                      their operating systems.
With a plan under     encryption (`serve --plan fast,scan=hescan` and others) both also trust RLWE at the parameters that
                      `fesc inspect --sets` lists (129 bits or more), with circular security: the client's evaluation keys
                      encrypt functions of its secret key under itself; and that encryptions of shares that depend on the
                      key, by the noise of what was decrypted before, are as safe as others (KDM). What the server sends
                      back carries a fresh encryption of zero and a mask that hides it within 2^-40 an inference, which
                      adds up over queries. The keys go up before the first document and link its sessions. The client
                      never tells what it decrypts. Which plan it is, is the server's choice; `classify` prints it.
With a dealer         (`--provider dealer`) both also trust that it colludes with neither: it sees no input, but with
                      one side's help it could read the other's.
With --embedding public the server gives the embedding's table to everybody in the clear: smaller and faster, right where the
                      table is published anyway. Documents stay as hidden as before; a table that was trained in private does not.
Prepared correlations (`fesc prepare`) are secrets: who reads one side's directory and the traffic reads the session.
Kept CKKS keys        (plans under encryption, a client on a list) link sessions, and who reads the client's half in its
                      --state reads what was encrypted under them: `--keys once` keeps none.

Not promised          anything against a party that leaves the protocol; hidden sizes or times of messages; that the
                      label is right for documents unlike those of the calibration; an audit: there was none.
With --insecure-verify the server gives its share of hidden values away, and with it the model."
    ))
}
