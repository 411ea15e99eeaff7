// The compiler includes it before each file (-include). A compiler loads a precompiled header, whose contents cannot be
// trusted, only before the first token of a file: this is that token.
typedef int fops_first_token;
