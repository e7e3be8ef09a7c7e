"""A participant's side of the room: joining, what is sent, and what waits until the room is back."""
