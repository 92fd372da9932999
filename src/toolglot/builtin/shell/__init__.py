"""Shell commands of a model, sandboxed by the kernel: `tools` has what a model can call, `sandbox` what
confines it.
"""
