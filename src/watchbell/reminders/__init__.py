"""The pure half of Schedule: records, times, replay, decisions, framing and deliveries."""
