// The compiler includes this header before each kernel file (-include). A compiler loads a precompiled header only before
// the first token of the code. The declaration below contains that token, so no precompiled header that lies beside a
// kernel file is loaded: its contents cannot be checked.
typedef int fops_first_token;
