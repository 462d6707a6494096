package bus

// InFlight returns how many messages wait for an answer.
func (b *Bus) InFlight() int { return len(b.slots) }

// Redact is redactURL.
func Redact(list string) string { return redactURL(list) }
