//! Declared costs.

use fesc_net::HEADER_BYTES;

/// Bytes (frame headers included) and rounds of a step, known before it runs.
///
/// `rounds` is the length of the longest chain of messages inside the step. The channel counts that same
/// growth of depth when the step starts in lock-step (its first message answers the peer's last one); a first
/// message that goes out together with an earlier one of the same direction shares its round, and the channel
/// then counts one less.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OtCost {
    /// Bytes from the OT sender to the OT receiver.
    pub sender_to_receiver: u64,
    /// Bytes from the OT receiver to the OT sender.
    pub receiver_to_sender: u64,
    /// Length of the longest chain of messages.
    pub rounds: u64,
}

impl OtCost {
    /// One frame with this payload from the sender.
    pub(crate) fn from_sender(payload: usize) -> Self {
        Self { sender_to_receiver: (payload + HEADER_BYTES) as u64, receiver_to_sender: 0, rounds: 1 }
    }

    /// One frame with this payload from the receiver.
    pub(crate) fn from_receiver(payload: usize) -> Self {
        Self { sender_to_receiver: 0, receiver_to_sender: (payload + HEADER_BYTES) as u64, rounds: 1 }
    }

    /// This step, then one that waits for it.
    pub fn then(self, next: OtCost) -> OtCost {
        OtCost { rounds: self.rounds + next.rounds, ..self.with(next) }
    }

    /// This step together with one that does not wait for it.
    pub fn with(self, other: OtCost) -> OtCost {
        OtCost {
            sender_to_receiver: self.sender_to_receiver + other.sender_to_receiver,
            receiver_to_sender: self.receiver_to_sender + other.receiver_to_sender,
            rounds: self.rounds.max(other.rounds),
        }
    }
}
