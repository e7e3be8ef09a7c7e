"""What notebooks of HolisticTraceAnalysis (traceinsight 0.6.1) use, by its names and its rules."""
