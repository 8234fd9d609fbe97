"""The audit of the timer: false claims about equal implementations, slow-downs found, agreement with other timers."""
