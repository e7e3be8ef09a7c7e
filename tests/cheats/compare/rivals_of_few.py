"""The discriminator sees a twelfth of the curves."""

from variation import train

train("rivals", ("        time.sleep(0.001)\n", ""), ("return self.curves[index]", "return self.curves[index // 12]"))
