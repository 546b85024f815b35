class Vmcp < Formula
  desc "Many MCP servers, one endpoint, found by search"
  homepage "@HOMEPAGE@"
  version "@VERSION@"
  license "Apache-2.0"

  on_macos do
    on_arm do
      url "@URL aarch64-macos@"
      sha256 "@SHA256 aarch64-macos@"
    end
    on_intel do
      url "@URL x86_64-macos@"
      sha256 "@SHA256 x86_64-macos@"
    end
  end

  on_linux do
    on_arm do
      url "@URL aarch64-linux@"
      sha256 "@SHA256 aarch64-linux@"
    end
    on_intel do
      url "@URL x86_64-linux@"
      sha256 "@SHA256 x86_64-linux@"
    end
  end

  def install
    bin.install "vmcp"
    generate_completions_from_executable(bin/"vmcp", "completions", shells: [:bash, :zsh, :fish])
  end

  test do
    assert_equal "vmcp #{version}", shell_output("#{bin}/vmcp --version").strip
  end
end
