"""Sources and sinks, and what is staged for them."""
