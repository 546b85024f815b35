//! Hybrid tool retrieval: text analysis, BM25F, vector scan, fusion; pure.
