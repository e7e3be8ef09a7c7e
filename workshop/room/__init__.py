"""The instructor's room: a server, and a participant's side of it: joining it, and what is sent."""
